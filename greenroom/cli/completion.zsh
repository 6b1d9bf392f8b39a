#compdef greenroom
# zsh completion of greenroom; in ~/.zshrc, after compinit: source <(greenroom completion zsh)
_greenroom() {
    local -a found described suffix
    local each
    found=("${(@f)$(${~words[1]} complete zsh "${(j: :)words[1,CURRENT-1]} $PREFIX" 2>/dev/null)}")
    if [[ $found[1] == files ]]; then
        compset -P '--*='
        _files
        return
    fi
    [[ $found[1] == open ]] && suffix=(-S '')
    for each in "${(@)found[2,-1]}"; do
        each=${each//:/\\:}
        described+=("${each/$'\t'/:}")
    done
    (( $#described )) && _describe -V 'greenroom' described "${suffix[@]}"
}
if [[ $funcstack[1] == _greenroom ]]; then _greenroom "$@"; else compdef _greenroom greenroom; fi
