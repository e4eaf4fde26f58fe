/* tenure pod-label: tell Kubernetes by a label which pod leads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "os/clock.h"
#include "os/module.h"
#include "store/kube/label.h"

static const char help[] =
    "usage: tenure pod-label [--store URL] [--pod NAME] KEY[=VALUE]\n"
    "\n"
    "Sets a label of this pod, for Services that select the leader.  Without VALUE it\n"
    "is 'leader' or 'standby', whichever is true when a hook calls it, as in\n"
    "\n"
    "    `tenure run --on-started 'tenure pod-label tenure-role' ...`\n"
    "\n"
    "and the same for `--on-stopped` and `--on-new-leader`.\n"
    "The pod's account needs the right to patch pods.\n"
    "\n"
    "  --store URL         which cluster and namespace; default kube:, the pod's own\n"
    "  --pod NAME          which pod; default: the host name, which is the pod's\n"
    "  --timeout DURATION  give up then (default 5s)\n"
    "\n"
    "Exit: 0 done, 1 the server refused it or cannot be reached, 2 usage error.\n";

enum { OPT_POD = CLI_OPT_OWN };

/* By what the supervisor tells a hook; NULL: this is none. */
static const char *role_in_hook(void)
{
    const char *event = getenv("TENURE_EVENT"), *leader = getenv("TENURE_LEADER"),
               *id = getenv("TENURE_ID");

    if (!event)
        return NULL;
    if (strcmp(event, "new-leader") == 0)
        return leader && id && *id && strcmp(leader, id) == 0 ? "leader" : "standby";
    return strcmp(event, "started") == 0 ? "leader" : "standby";
}

/* By the module that has the client. */
static enum tenure_status set_label(const char *url, const char *pod, const char *key,
                                    const char *value, int64_t deadline, struct tenure_error *err)
{
    void *symbol = NULL;
    enum tenure_status status =
        tn_module_load("tenure-store-kube.so", TN_KUBE_LABEL_SYMBOL, &symbol, NULL, err);

    if (status)
        return tenure_fail_context(err, "install tenure-store-kube");
    tn_kube_label_fn *label = NULL;
    memcpy(&label, &symbol, sizeof label); /* C has no cast from an object to a function */
    return label(url, pod, key, value, deadline, err);
}

static int run(const struct cli_verb *verb, int argc, char **argv)
{
    static const struct option options[] = {
        CLI_COMMON_OPTIONS, {"pod", required_argument, NULL, OPT_POD}, {0}};
    char host[256] = "", key[512], *equals;
    const char *pod = NULL, *value;
    struct tenure_error err;
    struct cli_common c;
    int opt;

    cli_common_init(&c);
    c.timeout_ns = INT64_C(5000000000);
    while ((opt = cli_getopt(verb, argc, argv, CLI_ANY_ORDER, options)) != -1) {
        if (opt == OPT_POD)
            pod = optarg;
        else
            cli_common_take(&c, verb, opt);
    }
    if (optind != argc - 1)
        return cli_misuse(verb, "give one label: KEY, or KEY=VALUE");
    snprintf(key, sizeof key, "%s", argv[optind]);
    equals = strchr(key, '=');
    value = equals ? equals + 1 : role_in_hook();
    if (equals == key || !*key)
        return cli_misuse(verb, "'%.60s' is no label: KEY, or KEY=VALUE", argv[optind]);
    if (!value)
        return cli_misuse(verb, "no hook of `tenure run` calls this: give KEY=VALUE");
    if (equals)
        *equals = '\0';
    if (!c.store)
        c.store = "kube:";
    if (strncmp(c.store, "kube:", 5) != 0)
        return cli_misuse(verb, "pods are in Kubernetes: give --store kube:");
    if (!pod) {
        gethostname(host, sizeof host - 1);
        pod = host;
    }
    if (set_label(c.store, pod, key, value, tenure_now() + c.timeout_ns, &err) != TENURE_OK)
        return cli_fail_with(verb, &err);
    return CLI_OK;
}

const struct cli_verb cli_pod_label = {"pod-label", "set a label of this Kubernetes pod", help,
                                       run};
