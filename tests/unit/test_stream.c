/* What an open answer gets when the ring turns under it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/stream.h"

/* The server is played: what it would call is called here. */
static MHD_ContentReaderCallback read_some;
static MHD_ContentReaderFreeCallback end;
static void *stream;
static bool suspended;

struct MHD_Response *MHD_create_response_from_callback(uint64_t size, size_t block,
                                                       MHD_ContentReaderCallback reader, void *cls,
                                                       MHD_ContentReaderFreeCallback free_it)
{
    static char response;

    (void)size;
    (void)block;
    read_some = reader;
    end = free_it;
    stream = cls;
    return (struct MHD_Response *)&response;
}

void MHD_suspend_connection(struct MHD_Connection *connection)
{
    (void)connection;
    suspended = true;
}

void MHD_resume_connection(struct MHD_Connection *connection)
{
    (void)connection;
    suspended = false;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* As if there had been no memory for the message. */
static void lose(struct tn_channel *c, uint64_t number)
{
    free(c->ring[number % TN_STREAM_RING].text);
    c->ring[number % TN_STREAM_RING] = (struct tn_message){0};
}

static void a_message_without_memory_is_passed_over(void **state)
{
    struct tn_channel c = {.lock = &lock};
    char out[8];

    (void)state;
    assert_non_null(tn_stream_response(&c, NULL, NULL, 0, NULL));
    assert_int_equal(read_some(stream, 0, out, sizeof out), 0);
    assert_true(suspended);
    tn_channel_publish(&c, "one", 3);
    tn_channel_publish(&c, "two", 3);
    lose(&c, 0);
    assert_false(suspended);
    assert_int_equal(read_some(stream, 0, out, sizeof out), 3);
    assert_memory_equal(out, "two", 3);
    end(stream);
    tn_channel_free(&c);
}

static void half_of_a_message_is_never_continued_in_another(void **state)
{
    struct tn_channel c = {.lock = &lock};
    char out[8];

    (void)state;
    assert_non_null(tn_stream_response(&c, NULL, NULL, 0, NULL));
    tn_channel_publish(&c, "a long one", 10);
    assert_int_equal(read_some(stream, 0, out, sizeof out), 8);
    for (int i = 0; i < TN_STREAM_RING; i++)
        tn_channel_publish(&c, "new", 3);
    lose(&c, TN_STREAM_RING); /* it has the place of the one that is half sent */
    assert_int_equal(read_some(stream, 0, out, sizeof out), MHD_CONTENT_READER_END_OF_STREAM);
    end(stream);
    tn_channel_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_without_memory_is_passed_over),
        cmocka_unit_test(half_of_a_message_is_never_continued_in_another),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
