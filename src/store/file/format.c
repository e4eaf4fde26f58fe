#include "store/file/format.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hex.h"
#include "base/sum.h"

#define MAGIC "tenure-slot 1 "

/* Where the members stand in the line; every one has a fixed width. */
enum {
    AT_NAME = sizeof MAGIC - 1,
    AT_NONCE = AT_NAME + TN_SLOT_NAME + sizeof " nonce=" - 1,
    AT_PREV = AT_NONCE + 32 + sizeof " prev=" - 1,
    AT_BASE = AT_PREV + 32 + sizeof " base=" - 1,
    AT_KIND = AT_BASE + 16 + 1,
    AT_LENGTH = AT_KIND + 4 + sizeof " length=" - 1,
    AT_SUM = AT_LENGTH + 7 + sizeof " sum=" - 1,
    AT_END = AT_SUM + 16,
};
_Static_assert(AT_END + 1 == TN_SLOT_HEADER, "the line has another length");
_Static_assert(TENURE_DATA_MAX < 10000000, "a length has seven digits");

void tn_slot_name(uint64_t number, char name[TN_SLOT_NAME + 1])
{
    snprintf(name, TN_SLOT_NAME + 1, "@%016" PRIu64, number);
}

uint64_t tn_slot_number(const char *name)
{
    uint64_t number = 0;

    if (strnlen(name, TN_SLOT_NAME + 1) != TN_SLOT_NAME || name[0] != '@')
        return 0;
    for (int i = 1; i < TN_SLOT_NAME; i++) {
        if (name[i] < '0' || name[i] > '9')
            return 0;
        number = number * 10 + (uint64_t)(name[i] - '0');
    }
    return number;
}

/* The line up to its sum. */
static void put_line(const struct tn_slot *slot, char line[TN_SLOT_HEADER + 1])
{
    char name[TN_SLOT_NAME + 1], nonce[TN_NONCE_HEX + 1], prev[TN_NONCE_HEX + 1];

    tn_slot_name(slot->number, name);
    tn_hex_encode(slot->nonce, TENURE_NONCE_SIZE, nonce);
    tn_hex_encode(slot->prev, TENURE_NONCE_SIZE, prev);
    snprintf(line, TN_SLOT_HEADER + 1,
             MAGIC "%s nonce=%s prev=%s base=%016" PRIx64 " %s length=%07" PRIu32 " sum=", name,
             nonce, prev, slot->base, slot->tombstone ? "dead" : "live", slot->len);
}

static void put_sum(const struct tn_slot *slot, char line[TN_SLOT_HEADER + 1])
{
    snprintf(line + AT_SUM, TN_SLOT_HEADER + 1 - AT_SUM, "%016" PRIx64 "\n", slot->sum);
}

/* It finds torn and rotten slots; who may write here may lead, so there is nobody to keep out. */
static uint64_t sum_slot(const struct tn_slot *slot, const void *data)
{
    char line[TN_SLOT_HEADER + 1];

    put_line(slot, line);
    return tn_sum(tn_sum(TN_SUM_START, line, AT_SUM), data, slot->len);
}

void tn_slot_encode(struct tn_slot *slot, const void *data, char line[TN_SLOT_HEADER + 1])
{
    slot->sum = sum_slot(slot, data);
    put_line(slot, line);
    put_sum(slot, line);
}

bool tn_slot_verify(const struct tn_slot *slot, const void *data)
{
    return sum_slot(slot, data) == slot->sum;
}

/* 16 hexadecimal digits; anything else gives some number, and fails the comparison below. */
static uint64_t hex64(const char *text)
{
    uint8_t bytes[8] = {0};
    char digits[17] = {0};
    uint64_t value = 0;

    memcpy(digits, text, 16);
    tn_hex_decode(digits, bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        value = value << 8 | bytes[i];
    return value;
}

static void nonce_at(const char *text, uint8_t nonce[TENURE_NONCE_SIZE])
{
    char digits[TN_NONCE_HEX + 1] = {0};

    memcpy(digits, text, TN_NONCE_HEX);
    tn_hex_decode(digits, nonce, TENURE_NONCE_SIZE);
}

static uint32_t length_at(const char *text)
{
    uint32_t len = 0;

    for (int i = 0; i < 7 && text[i] >= '0' && text[i] <= '9'; i++)
        len = len * 10 + (uint32_t)(text[i] - '0');
    return len;
}

const char *tn_slot_decode(const unsigned char *bytes, uint64_t size, uint64_t number,
                           struct tn_slot *slot)
{
    static const uint8_t zero[TENURE_NONCE_SIZE];
    struct tn_slot s = {.number = number};
    char line[TN_SLOT_HEADER + 1] = {0}, again[TN_SLOT_HEADER + 1];

    if (size < TN_SLOT_HEADER)
        return "it is shorter than its header";
    if (size > TN_SLOT_SIZE)
        return "it is larger than any slot";
    memcpy(line, bytes, TN_SLOT_HEADER);
    if (memcmp(line, MAGIC, sizeof MAGIC - 1) != 0)
        return "it does not begin like a slot of this version";
    nonce_at(line + AT_NONCE, s.nonce);
    nonce_at(line + AT_PREV, s.prev);
    s.base = hex64(line + AT_BASE);
    s.tombstone = memcmp(line + AT_KIND, "dead", 4) == 0;
    s.len = length_at(line + AT_LENGTH);
    s.sum = hex64(line + AT_SUM);
    /* There is one way to write a header: what was read must write the same. */
    put_line(&s, again);
    put_sum(&s, again);
    if (memcmp(line, again, TN_SLOT_HEADER) != 0)
        return "its header is damaged, or its name is not the one that it was written under";
    if (memcmp(s.nonce, zero, sizeof zero) == 0)
        return "its nonce is zero";
    if (size != TN_SLOT_HEADER + (uint64_t)s.len)
        return "its length is not the one in its header";
    *slot = s;
    return NULL;
}

void tn_slot_token(const struct tn_slot *slot, struct tenure_token *token)
{
    memset(token, 0, sizeof *token);
    snprintf(token->version, sizeof token->version, "%" PRIu64 ".%016" PRIx64, slot->number,
             slot->sum);
    memcpy(token->nonce, slot->nonce, TENURE_NONCE_SIZE);
}

bool tn_slot_version(const char *version, uint64_t *number, uint64_t *sum)
{
    char again[TENURE_VERSION_MAX + 1];
    uint64_t n = 0;
    size_t i;

    for (i = 0; version[i] >= '0' && version[i] <= '9' && n <= TN_SLOT_LIMIT; i++)
        n = n * 10 + (uint64_t)(version[i] - '0');
    if (i == 0 || n == 0 || n > TN_SLOT_LIMIT || version[i] != '.' || strlen(version + i) != 17)
        return false;
    uint64_t s = hex64(version + i + 1);
    snprintf(again, sizeof again, "%" PRIu64 ".%016" PRIx64, n, s);
    if (strcmp(again, version) != 0)
        return false;
    *number = n;
    *sum = s;
    return true;
}
