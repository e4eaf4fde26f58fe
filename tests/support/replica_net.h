/*
 * support/replica_net.h - links between drivers of one process (replica/transport.h), which a test
 * cuts and heals.  One thread carries everything, in order.
 */
#ifndef TESTS_REPLICA_NET_H
#define TESTS_REPLICA_NET_H

/* Between these two addresses (listen=, peer=) nothing is connected, and what was is closed. */
void replica_net_cut(const char *a, const char *b);
void replica_net_heal(const char *a, const char *b);

#endif
