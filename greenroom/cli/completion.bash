# bash completion of greenroom; in ~/.bashrc: source <(greenroom completion bash)
_greenroom() {
    local kind="" line
    COMPREPLY=()
    while IFS= read -r line; do
        if [[ -z $kind ]]; then kind=$line; else COMPREPLY+=("$line"); fi
    done < <("${1/#\~/$HOME}" complete bash "${COMP_LINE:0:COMP_POINT}" "--word=$2" 2>/dev/null)
    # Where nothing fits, -o default offers files. A bash older than 4 has no way to change that.
    if type compopt >/dev/null 2>&1; then
        [[ $kind == files ]] || compopt +o default
        [[ $kind == open ]] && compopt -o nospace
    fi
}
complete -o default -F _greenroom greenroom
