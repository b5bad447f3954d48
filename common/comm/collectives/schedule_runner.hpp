#pragma once
/// @file
/// ScheduleRunner: carries a schedule out over send and receive.

#include <memory>
#include <optional>

#include "common/comm/collectives/collective_algorithms.hpp"
#include "common/comm/engine/operation.hpp"
#include "common/comm/engine/roll_call.hpp"
#include "common/comm/transport.hpp"

namespace ultra::comm {

/// @brief Checks that a schedule stays inside its buffers and its group.
/// @param input_count  elements of Buffer::kInput: 0 except for all_to_all.
/// @param data_count   elements of Buffer::kData.
/// @throws ConfigError that names lane, step, what it does and the limit it breaks.
void expect_runnable(const Schedule& schedule, int rank, int size, std::size_t input_count,
                     std::size_t data_count);

/// @brief A collective as an operation that takes the steps of `algorithms`' schedule.
///
/// Local steps that reduce into one block one after the other are one sum: numbers of two bytes are
/// added up in f32 over all of them and rounded once.
///
/// The schedule works on the output where that holds the whole data, else on a copy. Memory: up to
/// one copy of the whole data, where a rank must not lose its input or has no room for the rest
/// (reduce, gather, scatter, reduce_scatter), and the schedule's scratch.
/// @param control  notes the operation where messages do not travel; else carries the roll call, with
///                 Checking::kOn.
[[nodiscard]] std::shared_ptr<Operation> run_schedule(CollectiveCall call,
                                                      const CollectiveAlgorithms& algorithms,
                                                      std::shared_ptr<Transport> transport,
                                                      std::shared_ptr<Transport> control,
                                                      Checking checking);

}  // namespace ultra::comm
