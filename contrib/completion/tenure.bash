# Completion for bash: source it, or install it as /usr/share/bash-completion/completions/tenure.
# The words come from the program itself, so that they cannot be behind it.
# Elections of the store that the line or the environment names, if it answers soon.  What is not
# there yet is not made, and a password is not shown to who lists processes.
_tenure_names()
{
    local store=${TENURE_STORE-} file i
    for ((i = 2; i < COMP_CWORD; i++)); do
        [ "${COMP_WORDS[i]}" = --store ] || continue
        store=${COMP_WORDS[++i]}
        # Bash takes a URL apart at these characters.
        while ((i + 1 < COMP_CWORD)) &&
            [[ ${COMP_WORDS[i + 1]} =~ ^[:=@]+$ || ${COMP_WORDS[i]} =~ ^[:=@]+$ ]]; do
            store+=${COMP_WORDS[++i]}
        done
    done
    store=${store#=}
    case $store in
    '') file=${XDG_STATE_HOME:-$HOME/.local/state}/tenure/tenure.db ;;
    sqlite:* | file:*) file=${store#*:} file=${file#//} file=${file%%\?*} ;;
    esac
    if [ -z "${file-}" ] || [ -e "$file" ]; then
        TENURE_STORE=$store timeout 2 "${COMP_WORDS[0]}" status --all --json --timeout 1s \
            2>/dev/null </dev/null | grep -o '"name":"[^"]*"' | cut -d'"' -f4
    fi
}

_tenure()
{
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} words=
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        words=$("${COMP_WORDS[0]}" help 2>/dev/null | sed -n 's/^  \([a-z][a-z-]*\)  *.*/\1/p')
        mapfile -t COMPREPLY < <(compgen -W "$words help --help --version" -- "$current")
        return
    fi
    case $previous in
    --store | --state | --lease)
        mapfile -t COMPREPLY < <(compgen -W "sqlite: file: postgres: redis: etcd: kube: memory: noop:" -- "$current")
        return
        ;;
    --name)
        mapfile -t COMPREPLY < <(compgen -W "$(_tenure_names)" -- "$current")
        return
        ;;
    --on-loss) words="standby exit restart-program" ;;
    --on-exit) words="exit restart yield" ;;
    --contain) words="auto pidns cgroup group userns" ;;
    --watchdog) words="off auto required" ;;
    --prefer) words="none oldest-build newest-build" ;;
    --log) words="auto text json none" ;;
    --log-level) words="error warn info debug" ;;
    --listen-reads) words="open token" ;;
    --stop-signal | --warm-signal) words="TERM INT QUIT HUP USR1 USR2" ;;
    esac
    if [ -n "$words" ]; then
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
        return
    fi
    case $current in
    -*)
        words=$("${COMP_WORDS[0]}" "${COMP_WORDS[1]}" --help 2>/dev/null |
            sed 's/`[^`]*`//g' | grep -o -- '--[a-z][a-z-]*' | sort -u)
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
        ;;
    *)
        if [ "${COMP_WORDS[1]}" = state ] && [ "$COMP_CWORD" -eq 2 ]; then
            mapfile -t COMPREPLY < <(compgen -W "show get put delete repair export import" -- "$current")
        elif [ "${COMP_WORDS[1]}" = store ] && [ "$COMP_CWORD" -eq 2 ]; then
            COMPREPLY=(schema)
        elif [ "${COMP_WORDS[1]}" = config ] && [ "$COMP_CWORD" -eq 2 ]; then
            COMPREPLY=(check)
        elif [[ " status watch history candidates handover step-down pause resume " == *" ${COMP_WORDS[1]} "* ]]; then
            mapfile -t COMPREPLY < <(compgen -W "$(_tenure_names)" -- "$current")
        else
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
        fi
        ;;
    esac
}
complete -F _tenure tenure
