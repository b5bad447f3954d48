#pragma once
/// @file
/// How a thread that mostly sleeps gets a core when it wakes.

namespace ultra::comm {

/// @brief What Linux gives a thread at least, in nanoseconds: the shortest turn that may be asked for.
inline constexpr unsigned long kShortTurn = 100'000;

/// @brief Asks the scheduler for short turns of the calling thread on a core.
///
/// Between two threads of one core, Linux lets the one go on that computes until its turn of some
/// milliseconds is over; the other one's message waits for as long. A thread with shorter turns gets
/// the core when it wakes, and no larger part of it on the whole. Without effect before Linux 6.12,
/// where the wish is ignored.
/// Source: sched_setattr(2); Documentation/scheduler/sched-eevdf.rst of Linux.
void ask_for_short_turns();

}  // namespace ultra::comm
