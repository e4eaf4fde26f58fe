/*
 * Where a request's head ends, line by line.  The library takes what others refuse: folded lines,
 * a line feed alone, bytes after a NUL.  A proxy in front of us could see the end elsewhere, and
 * pass somebody's body on as another's request.
 */
#include <string.h>

#include "http/server.h"

struct framing {
    uintptr_t at; /* where the next line begins */
    unsigned lengths, hosts;
    bool odd, coded;
};

/* It hands out pointers into the very bytes that it received, so a line that is as we see it
 * ends where the next one begins.  One that was put together from two lies elsewhere. */
static enum MHD_Result look_at(void *arg, enum MHD_ValueKind kind, const char *name,
                               size_t name_len, const char *value, size_t value_len)
{
    struct framing *f = arg;
    bool coding = strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0;

    (void)kind;
    f->lengths += coding || strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0;
    f->coded |= coding;
    f->hosts += strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0;
    f->odd |= (uintptr_t)name != f->at || name[strcspn(name, " \t")] != '\0' ||
              (uintptr_t)value <= f->at + name_len || (coding && strcasecmp(value, "chunked") != 0);
    f->at = (uintptr_t)value + value_len + strlen("\r\n");
    return MHD_YES;
}

bool tn_framing_is_clear(struct MHD_Connection *connection, const char *method, const char *version)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    struct framing f = {.at = (uintptr_t)version + strlen(version) + strlen("\r\n")};

    MHD_get_connection_values_n(connection, MHD_HEADER_KIND, look_at, &f);
    /* HTTP/1.0 knows no coding: who speaks it sees another end. */
    if (f.coded && strcmp(version, MHD_HTTP_VERSION_1_1) != 0)
        return false;
    return !f.odd && f.lengths <= 1 && f.hosts <= 1 && info &&
           f.at + strlen("\r\n") == (uintptr_t)method + info->header_size;
}
