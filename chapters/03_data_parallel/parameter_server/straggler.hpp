#pragma once
/// @file
/// Straggler: a replica that is slower than the others, for experiments.

#include <chrono>
#include <memory>

#include "common/comm/communicator.hpp"
#include "common/train/step.hpp"

namespace ultra::data_parallel {

/// @brief Which replica is slow, and by how much.
struct Straggler {
  int replica = 0;                        ///< its rank among the replicas
  std::chrono::duration<double> delay{};  ///< how much longer each of its steps takes
  bool operator==(const Straggler&) const = default;
};

/// @brief An observer by which one replica sleeps before every step.
/// @param dp  the replicas.
[[nodiscard]] std::unique_ptr<train::StepObserver> make_straggler(const Straggler& straggler,
                                                                  const Communicator& dp);

}  // namespace ultra::data_parallel
