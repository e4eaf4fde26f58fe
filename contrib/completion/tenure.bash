# Completion for bash: source it, or install it as /usr/share/bash-completion/completions/tenure.
# The words come from the program itself, so that they cannot be behind it.
_tenure_verbs()
{
    # The last line of the help is about --help: it begins with the name of the program.
    "${COMP_WORDS[0]}" help 2>/dev/null | sed -n '/^  tenure /d; s/^  \([a-z][a-z-]*\)  *.*/\1/p'
}

# Asks the store that the line or the environment names, if it answers soon: a verb and its arguments
# in, JSON out.  A password is not shown in process lists.
_tenure_ask()
{
    local store=${TENURE_STORE-} i
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
    TENURE_STORE=$store timeout 2 "${COMP_WORDS[0]}" "$@" --json --timeout 1s 2>/dev/null </dev/null
}

_tenure_names()
{
    _tenure_ask status --all | grep -o '"name":"[^"]*"' | cut -d'"' -f4
}

# The candidates of the election that the line names, before or behind, but for its leader.
_tenure_candidates()
{
    local name=${TENURE_NAME-} i
    for ((i = 2; i < ${#COMP_WORDS[@]}; i++)); do
        case ${COMP_WORDS[i]} in
        --name) name=${COMP_WORDS[i + 1]-} ;;
        --* | [:=@]*) ;;
        *) [[ ${COMP_WORDS[i - 1]} == --* || ${COMP_WORDS[i - 1]} =~ ^[:=@]+$ ||
            ${COMP_WORDS[i + 1]-} =~ ^[:=@]+$ ]] || name=${COMP_WORDS[i]} ;;
        esac
    done
    [ -n "$name" ] || return
    _tenure_ask status --name "$name" | grep -o '"candidates":\[.*' | sed 's/"history":.*//' |
        grep -o '{[^}]*}' | grep -v '"state":"leading"' | grep -o '"id":"[^"]*"' | cut -d'"' -f4
}

# Behind the -- at place $1 stands a command line of its own.  bash-completion, where it is there,
# completes that as if nothing stood before it.
_tenure_command()
{
    if declare -F _command_offset >/dev/null; then
        _command_offset "$(($1 + 1))"
    elif [ "$COMP_CWORD" -eq "$(($1 + 1))" ]; then
        mapfile -t COMPREPLY < <(compgen -c -- "$current"; compgen -f -- "$current")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
    fi
}

_tenure()
{
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} words= i
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_tenure_verbs) help --help --version" -- "$current")
        return
    fi
    if [ "${COMP_WORDS[1]}" = help ]; then
        [ "$COMP_CWORD" -eq 2 ] && mapfile -t COMPREPLY < <(compgen -W "$(_tenure_verbs)" -- "$current")
        return
    fi
    if [[ " run work lock cron once " == *" ${COMP_WORDS[1]} "* ]]; then
        for ((i = 2; i < COMP_CWORD; i++)); do
            [ "${COMP_WORDS[i]}" = -- ] || continue
            _tenure_command "$i"
            return
        done
    fi
    case $previous in
    --store | --state | --lease)
        mapfile -t COMPREPLY < <(compgen -W "sqlite: file: postgres: redis: etcd: consul: zookeeper: nats: kube: s3: azblob: memory: noop:" -- "$current")
        return
        ;;
    --name)
        mapfile -t COMPREPLY < <(compgen -W "$(_tenure_names)" -- "$current")
        return
        ;;
    --to)
        mapfile -t COMPREPLY < <(compgen -W "$(_tenure_candidates)" -- "$current")
        return
        ;;
    --on-loss) words="standby exit restart-program" ;;
    --on-exit) words="exit restart yield" ;;
    --contain) words="auto pidns cgroup group userns" ;;
    --watchdog) words="off auto required" ;;
    --prefer) words="none oldest-build newest-build" ;;
    --log) words="auto text json none" ;;
    --log-level) words="error warn info debug" ;;
    --log-time) words="auto always never" ;;
    --catch-up) words="once skip all" ;;
    --retry) words="never lost failed" ;;
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
        elif [ "${COMP_WORDS[1]}" = cron ]; then
            mapfile -t COMPREPLY < <(compgen -W "list $(_tenure_names)" -- "$current")
        elif [ "${COMP_WORDS[1]}" = jobs ] && [ "$COMP_CWORD" -eq 2 ]; then
            words="add import list explain pause resume remove weigh move unpin workers drain evict admit plan watch history repair"
            mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
        elif [ "${COMP_WORDS[1]}" = store ] && [ "$COMP_CWORD" -eq 2 ]; then
            mapfile -t COMPREPLY < <(compgen -W "options schema" -- "$current")
        elif [ "${COMP_WORDS[1]}" = config ] && [ "$COMP_CWORD" -eq 2 ]; then
            COMPREPLY=(check)
        elif [[ " lock once status watch history candidates handover step-down pause resume remove " == *" ${COMP_WORDS[1]} "* ]]; then
            mapfile -t COMPREPLY < <(compgen -W "$(_tenure_names)" -- "$current")
        else
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
        fi
        ;;
    esac
}
complete -F _tenure tenure
