/*
 * floor_nats URL N - N compare-and-swaps on one key of a NATS bucket by the plainest client:
 * kvStore_Update(), 300 bytes.  Prints swaps a second.
 */
#include <nats/nats.h>
#include <stdio.h>
#include <stdlib.h>

#include "floor_time.h"

static void check(const char *doing, natsStatus status)
{
    if (status != NATS_OK) {
        fprintf(stderr, "floor_nats: %s: %s\n", doing, natsStatus_GetText(status));
        exit(1);
    }
}

int main(int argc, char **argv)
{
    long n = argc == 3 ? atol(argv[2]) : 0;
    natsConnection *connection = NULL;
    jsCtx *js = NULL;
    kvStore *kv = NULL;
    kvConfig conf;
    uint64_t revision = 0;
    char value[301];

    if (n < 1) {
        fprintf(stderr, "usage: floor_nats URL N\n");
        return 2;
    }
    check("connect", natsConnection_ConnectTo(&connection, argv[1]));
    check("JetStream", natsConnection_JetStream(&js, connection, NULL));
    kvConfig_Init(&conf);
    conf.Bucket = "floor";
    conf.History = 1;
    check("bucket", js_CreateKeyValue(&kv, js, &conf));
    snprintf(value, sizeof value, "%0300d", 0);
    check("put", kvStore_PutString(&revision, kv, "one", value));
    double from = now();
    for (long i = 0; i < n; i++)
        check("update", kvStore_UpdateString(&revision, kv, "one", value, revision));
    printf("%.0f\n", (double)n / (now() - from));
    kvStore_Destroy(kv);
    jsCtx_Destroy(js);
    natsConnection_Destroy(connection);
    nats_Close();
    return 0;
}
