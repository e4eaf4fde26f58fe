/*
 * supervise/machine_inner.h - what the files of the machine share: machine.c has its table, its
 * timers and the way out; machine_program.c and machine_hooks.c what the table calls.
 */
#ifndef TN_SUPERVISE_MACHINE_INNER_H
#define TN_SUPERVISE_MACHINE_INNER_H

#include "base/duration.h"
#include "core/timing.h"
#include "supervise/machine.h"

/* A program that lives this long has not crashed in a loop. */
#define TN_MACHINE_STEADY_NS (60 * TN_S)

/* machine.c: append an action; the returned one may be completed. */
struct tn_machine_action *tn_machine_act(struct tn_machine *m, enum tn_machine_action_kind kind);
void tn_machine_act_at(struct tn_machine *m, enum tn_machine_action_kind kind, int64_t at_ns);
void tn_machine_act_stop(struct tn_machine *m, int signal, int64_t by_ns);
/* The elector is to shut down; with fail() the exit code is ours, whatever the program does. */
void tn_machine_leave(struct tn_machine *m);
void tn_machine_fail(struct tn_machine *m, int code);

/* An entry of the table: what an event means in a state. */
typedef void tn_handler(struct tn_machine *m);

/* machine_program.c */
void tn_machine_start_program(struct tn_machine *m);
void tn_machine_note_fired(struct tn_machine *m);
/* Nothing of the program's tree is left. */
void tn_machine_tree_dead(struct tn_machine *m, int64_t at_ns);
/* ... and nothing else has to be done before the term ends. */
void tn_machine_finish_death(struct tn_machine *m);
tn_handler tn_lead_from_none, tn_lead_idle, tn_lead_running, tn_lead_ending, tn_take_accepted,
    tn_take_spawned, tn_take_failed, tn_ticket_for_spawn, tn_ticket_for_clients,
    tn_ticket_while_starting, tn_ticket_while_running, tn_spawn_invalid, tn_spawn_failed;
tn_handler tn_note_stop, tn_stop_none, tn_stop_clients, tn_stop_running, tn_take_unhealthy,
    tn_step_down_done;
tn_handler tn_take_dead, tn_take_refused, tn_take_exited, tn_program_killed, tn_fired_idle,
    tn_fired_running;

/* machine_hooks.c */
void tn_machine_run_due_hooks(struct tn_machine *m);
void tn_machine_run_stopped_hook(struct tn_machine *m);
void tn_machine_end_hooks(struct tn_machine *m);
void tn_machine_keep_lease(struct tn_machine *m);
tn_handler tn_hook_ended, tn_hook_failed, tn_take_leader, tn_hook_killed;

#endif
