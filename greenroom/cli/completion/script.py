"""The scripts that shells load: thin, so that everything else is said once, and in Python.

Each hands over the line up to the cursor. The first line of the answer says what is wanted: "files",
or "words", which follow, or "open" for words that go on, so that no blank is put after them.
"""

_BASH = r"""# bash completion of greenroom; in ~/.bashrc: source <(greenroom completion bash)
_greenroom() {
    local kind="" line
    COMPREPLY=()
    while IFS= read -r line; do
        if [[ -z $kind ]]; then kind=$line; else COMPREPLY+=("$line"); fi
    done < <("${1/#\~/$HOME}" complete bash "${COMP_LINE:0:COMP_POINT}" "--word=$2" 2>/dev/null)
    # Where nothing fits, -o default offers files. An older bash than 4 can't be told otherwise.
    if type compopt >/dev/null 2>&1; then
        [[ $kind == files ]] || compopt +o default
        [[ $kind == open ]] && compopt -o nospace
    fi
}
complete -o default -F _greenroom greenroom
"""

_ZSH = r"""#compdef greenroom
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
"""

_FISH = r"""# fish completion of greenroom; in ~/.config/fish/config.fish: greenroom completion fish | source
function __greenroom_complete
    set -l words (commandline -opc)
    set -l line (commandline -cp)
    set -l found ($words[1] complete fish "$line" 2>/dev/null)
    if test "$found[1]" = files
        __fish_complete_path (string replace -r '^--[a-z-]+=' '' -- (commandline -ct))
    else if set -q found[2]
        printf '%s\n' $found[2..-1]
    end
end
complete -c greenroom -f -k -a '(__greenroom_complete)'
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
"""The script of each shell."""

SHELLS = tuple(SCRIPTS)
"""The shells that there is a script for."""
