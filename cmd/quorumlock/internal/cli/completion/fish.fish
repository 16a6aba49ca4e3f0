# Completion of quorumlock for fish. The words of the line are data here: nothing expands or
# evaluates them.
function __quorumlock_offers
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    if set -l dashes (contains -i -- -- $words) # after -- come a command and files
        if test $dashes -eq (count $words)
            set -l files $PATH/*
            string replace -rf -- '^.*/('(string escape --style=regex -- $current)'[^/]*)$' '$1' $files
        end
        return 1
    end
    if string match -q -- '-*' $current
        set -a words $current
    end
    command $words --generate-shell-completion 2>/dev/null </dev/null | string replace ':' \t
end

complete -c quorumlock -e
complete -c quorumlock -f -a '(__quorumlock_offers)'
complete -c quorumlock -n 'not __quorumlock_offers >/dev/null' -F
