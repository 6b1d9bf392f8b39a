# fish completion of greenroom; in ~/.config/fish/config.fish: greenroom completion fish | source
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
