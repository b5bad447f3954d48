#pragma once
/// @file
/// train: the frame of a training run. What a rank does in it is its Worker's.

#include "common/comm/communicator.hpp"
#include "common/data/shared_dataset.hpp"
#include "common/train/options/options.hpp"
#include "common/train/report/metrics.hpp"
#include "common/train/run/worker.hpp"

namespace ultra::train {

/// @brief Trains on the ranks of `world`; rank 0 shows progress on stdout and writes metrics and
/// trace for all.
///
/// Collective: every rank calls it, with the same options and with a worker of its own.
/// @param text          opens the text; the ranks of a process can share it.
/// @param make_worker   makes this rank's worker; called once.
/// @param extra_config  the chapter's own flags, for the metrics file.
/// @return the same on every rank, except for the times of the steps, which are the rank's own, and
/// for figures that the workers leave different (see Worker::conclude()). The metrics file has rank
/// 0's.
/// @throws ConfigError for options that do not fit and for ranks whose texts differ, and FileError
/// for files that cannot be read or written, before the first step and the same on every rank (see
/// agree()); what a worker throws; Interrupted when the program was told to stop. No partial file
/// is left behind.
[[nodiscard]] TrainResult train(const TrainOptions& options, data::SharedDataset& text,
                                const MakeWorker& make_worker, const ExtraConfig& extra_config,
                                const Communicator& world);

/// @brief Checks that this process is alone: what trains on one rank has no work for others.
/// @throws ConfigError when mpirun started several processes.
void expect_one_process();

}  // namespace ultra::train
