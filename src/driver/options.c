/* What the options of an elector come to: who it is, and times that are safe on its store. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/name.h"
#include "base/url.h"
#include "driver/inner.h"
#include "driver/timing_text.h"
#include "os/claim.h"

#define OPEN_LIMIT_NS (5 * TN_S)
#define ID_TRIES      1000 /* candidates of one election on one machine */

static enum tenure_status copy_text(char *to, size_t size, const char *what, const char *text,
                                    struct tenure_error *err)
{
    if (!text)
        text = "";
    if (strlen(text) >= size)
        return tenure_fail(err, TENURE_CONFIG, "%s is longer than %zu bytes", what, size - 1);
    for (const char *p = text; *p; p++) {
        if ((unsigned char)*p < 0x20 || (unsigned char)*p > 0x7e)
            return tenure_fail(err, TENURE_CONFIG, "%s must be printable ASCII", what);
    }
    snprintf(to, size, "%s", text);
    return TENURE_OK;
}

/* The name of this machine: the same after each restart.  One that every new machine has is told
 * apart by the number that the system has given it. */
static void write_host(char *out, size_t size)
{
    char host[64] = "", machine[7] = "";

    if (gethostname(host, sizeof host) != 0)
        host[0] = '\0';
    host[sizeof host - 1] = '\0';
    for (char *p = host; *p; p++)
        *p = *p > 0x20 && *p < 0x7f ? *p : '-';
    if (host[0] && strcmp(host, "localhost") != 0 && strcmp(host, "(none)") != 0) {
        snprintf(out, size, "%s", host);
        return;
    }
    FILE *f = fopen("/etc/machine-id", "re");
    if (!f || !fgets(machine, sizeof machine, f))
        machine[0] = '\0';
    if (f)
        fclose(f);
    snprintf(out, size, "%s%s%s", strcmp(host, "localhost") == 0 ? host : "host",
             machine[0] ? "-" : "", machine);
}

/* Absolute, without slashes and dots that say nothing.  It is not looked at: a share may hang. */
static void write_path(const char *path, char *out, size_t size)
{
    char base[PATH_MAX] = "";
    size_t used = 0;

    if (path[0] != '/' && !getcwd(base, sizeof base))
        base[0] = '\0';
    const char *parts[] = {base, path};
    for (size_t i = 0; i < 2; i++) {
        for (const char *p = parts[i] + strspn(parts[i], "/"); *p; p += strspn(p, "/")) {
            size_t n = strcspn(p, "/");

            if ((n > 1 || *p != '.') && used + n + 2 <= size)
                used += (size_t)snprintf(out + used, size - used, "/%.*s", (int)n, p);
            p += n;
        }
    }
}

/* What tells a store from others, the same however its URL is written.  Nothing secret: every user
 * of this machine sees what a claim is called, and can try which words come to that. */
static void write_store(const char *store, char *out, size_t size)
{
    char shown[TN_URL_MAX + 1];
    struct tn_url url = {0};
    struct tenure_error ignored;

    out[0] = '\0';
    tenure_url_redact(store, shown, sizeof shown);
    if (tn_url_parse(shown, &url, &ignored) != TENURE_OK)
        return; /* it cannot be opened either */
    if (tn_url_traits(store) & TN_URL_IN_FILES) {
        int used = snprintf(out, size, "%s:", url.scheme);

        write_path(url.path, out + used, size - (size_t)used);
    } else {
        const char *query = strchr(shown, '?');

        snprintf(out, size, "%s:%s%s%s", url.scheme, url.hosts, url.path, query ? query : "");
    }
    tn_url_free(&url);
}

/* Another candidate of this election on this machine may have that id: "host-2", "host-3" ... for
 * the next ones, so that labels stay the same however often one restarts.  Those of other machines
 * are not seen here; what two of one id do is safe (I6b).  An id that was given is claimed as well,
 * so that nobody takes it by default, and kept whatever comes of that. */
static void claim_id(tenure_elector *e, char *id, size_t size)
{
    const struct tenure_elector_options *o = &e->options;
    char store[PATH_MAX + TN_URL_MAX + 2], host[80];
    const char *words[] = {store, o->name ? o->name : "", id, NULL};

    write_store(o->store ? o->store : "", store, sizeof store);
    if (id[0]) {
        tn_claim(words, &e->id_claim);
        return;
    }
    write_host(host, sizeof host);
    snprintf(id, size, "%s", host);
    for (unsigned n = 2; !tn_claim(words, &e->id_claim) && n < ID_TRIES; n++) {
        snprintf(id, size, "%s-%u", host, n);
        e->id_suffixed = true;
    }
}

static enum tenure_status plan_timing(const struct tenure_elector_options *o,
                                      const struct tenure_store_info *info, struct tn_timing *out,
                                      struct tenure_error *err)
{
    struct tn_timing_ms wish = {.ttl_ms = o->ttl_ms,
                                .renew_ms = o->renew_ms,
                                .grace_ms = o->grace_ms,
                                .kill_ms = o->kill_ms,
                                .rho_ppm = o->rho_ppm};

    return tn_timing_settle(&wish, info, out, err);
}

enum tenure_status tn_driver_configure(tenure_elector *e, struct tenure_error *err)
{
    const struct tenure_elector_options *o = &e->options;
    struct tn_elector_config *cfg = &e->machine.cfg;
    enum tenure_status status;

    if ((status = tenure_nonce(cfg->incarnation, err)) ||
        (status = copy_text(cfg->id, sizeof cfg->id, "id", o->id, err)) ||
        (status = copy_text(cfg->address, sizeof cfg->address, "address", o->address, err)) ||
        (status = copy_text(cfg->build, sizeof cfg->build, "build", o->build, err)))
        return status;
    claim_id(e, cfg->id, sizeof cfg->id);
    const char *fault = tn_name_fault(o->name);
    if (fault)
        return tenure_fail(err, TENURE_CONFIG, "'%.60s' cannot be the name of an election: %s",
                           o->name ? o->name : "", fault);
    if (!o->store)
        return tenure_fail(err, TENURE_CONFIG,
                           "no store is given: name one that all candidates share, such as "
                           "\"sqlite:/var/lib/app/lease.db\"; \"noop:\" if every process may lead");
    snprintf(e->name, sizeof e->name, "%s", o->name);
    snprintf(e->id, sizeof e->id, "%s", cfg->id);
    snprintf(e->snapshot.name, sizeof e->snapshot.name, "%s", o->name);
    snprintf(e->snapshot.id, sizeof e->snapshot.id, "%s", cfg->id);
    memcpy(e->snapshot.incarnation, cfg->incarnation, sizeof e->snapshot.incarnation);
    cfg->priority = o->priority;
    e->requests.priority = o->priority;
    e->requests.may_claim = true;
    cfg->drain_ns = (o->grace_ms ? o->grace_ms : 8000) * TN_MS;
    return TENURE_OK;
}

/* A store in files whose directory is not there: a share may be mounted later, and a directory
 * made. For everybody but a candidate, who can wait, that is a wrong URL. */
static bool may_be_mounted(const char *text)
{
    struct tn_url url = {0};
    struct tenure_error ignored;
    struct stat st;
    bool missing = false;

    if ((tn_url_traits(text) & TN_URL_IN_FILES) &&
        tn_url_parse(text, &url, &ignored) == TENURE_OK) {
        size_t n = strlen(url.path);

        while (n > 1 && url.path[n - 1] == '/')
            url.path[--n] = '\0';
        char *slash = strrchr(url.path, '/');
        if (slash && slash != url.path) {
            *slash = '\0';
            missing = stat(url.path, &st) != 0 && errno == ENOENT;
        }
    }
    tn_url_free(&url);
    return missing;
}

enum tenure_status tn_driver_open(tenure_elector *e, struct tenure_error *err)
{
    struct tn_elector_config cfg = e->machine.cfg;
    enum tenure_status status =
        tenure_store_open(e->options.store, tenure_now() + OPEN_LIMIT_NS, &e->store, err);

    if (status == TENURE_CONFIG && may_be_mounted(e->options.store))
        status = err->code = TENURE_UNAVAILABLE;
    if (status)
        return status;
    pthread_mutex_lock(&e->lock);
    e->info = *tenure_store_info(e->store);
    status = plan_timing(&e->options, &e->info, &cfg.timing, err);
    e->planned = !status;
    snprintf(e->snapshot.weakness, sizeof e->snapshot.weakness, "%s",
             e->info.weakness ? e->info.weakness : "");
    pthread_mutex_unlock(&e->lock);
    cfg.purges = tenure_store_purges(e->store);
    if (!status)
        tn_elector_init(&e->machine, &cfg);
    return status;
}

enum tenure_status tn_driver_retime(tenure_elector *e, const struct tenure_elector_options *options,
                                    _Atomic int64_t *notice_ns, struct tenure_error *err)
{
    struct tn_timing timing;

    pthread_mutex_lock(&e->lock);
    struct tenure_store_info info = e->info;
    pthread_mutex_unlock(&e->lock);
    enum tenure_status status = plan_timing(options, &info, &timing, err);
    if (status)
        return status;
    /* Before the driver knows: the lower ttl lowers the deadline as it is sent, and a guard that
     * still gave the longer notice would end the program there and then (I12). */
    if (notice_ns && timing.grace_ns < atomic_load(notice_ns))
        atomic_store(notice_ns, timing.grace_ns);
    tn_driver_lock(e);
    if (e->planned) {
        e->requests.retime = true;
        e->requests.timing = timing;
    } else { /* planned when the store is open */
        e->options.ttl_ms = options->ttl_ms;
        e->options.renew_ms = options->renew_ms;
        e->options.grace_ms = options->grace_ms;
        e->options.kill_ms = options->kill_ms;
    }
    tn_driver_unlock_and_wake(e);
    return TENURE_OK;
}

enum tenure_status tenure_elector_set_ttl(tenure_elector *e, int64_t ttl_ms, int64_t renew_ms,
                                          struct tenure_error *err)
{
    struct tenure_elector_options o = e->options;
    struct tenure_error scratch;

    o.ttl_ms = ttl_ms;
    o.renew_ms = renew_ms;
    return tn_driver_retime(e, &o, NULL, err ? err : &scratch);
}
