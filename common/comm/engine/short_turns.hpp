#pragma once
/// @file
/// How a thread that mostly sleeps gets a core when it wakes.

namespace ultra::comm {

/// @brief What Linux gives a thread at least, in nanoseconds: the shortest turn that may be asked for.
inline constexpr unsigned long kShortTurn = 100'000;

/// @brief Asks the scheduler for short turns of the calling thread on a core.
///
/// Of two threads on one core, Linux lets the one that computes go on until its turn of some
/// milliseconds is over; the other one's message waits that long. A thread with shorter turns gets
/// the core when it wakes, and no larger share of it overall. Without effect before Linux 6.12,
/// where the wish is ignored.
/// Source: sched_setattr(2); Documentation/scheduler/sched-eevdf.rst of Linux.
void ask_for_short_turns();

}  // namespace ultra::comm
