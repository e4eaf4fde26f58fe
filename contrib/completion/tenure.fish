# Completion for fish: install it as /usr/share/fish/vendor_completions.d/tenure.fish.
# The words are those of the completion for bash, which asks the program itself: one list for all.
set -g __tenure_dir (path dirname (path resolve (status filename)))
function __tenure_complete
    set -l words (commandline -opc) "$(commandline -ct)"
    for file in $__tenure_dir/tenure.bash $__tenure_dir/../../bash-completion/completions/tenure
        test -r $file; or continue
        bash -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _tenure
                 [ ${#COMPREPLY[@]} -eq 0 ] || printf "%s\n" "${COMPREPLY[@]}"' bash $file $words 2>/dev/null
        return
    end
end
complete -c tenure -f -a '(__tenure_complete)'
