#pragma once
/// @file
/// What the handles on one group of ranks share: the implementation of Communicator.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "common/comm/backend/nccl/nccl_group.hpp"
#include "common/comm/communicator.hpp"
#include "common/comm/device/staging.hpp"
#include "common/comm/engine/progress_engine.hpp"
#include "common/comm/links/slow_link.hpp"
#include "common/comm/transport.hpp"

namespace ultra::comm {

/// @brief What one rank keeps for all its groups.
struct RankState {
  std::shared_ptr<ProgressEngine> engine;  ///< moves all its operations along
  std::shared_ptr<SlowLink> link;          ///< null when messages are not slowed
  std::shared_ptr<Polling> polling;        ///< what wakes nobody when it comes
  std::shared_ptr<Staging> staging;        ///< null when transports know devices' memory
  nccl::Use nccl;                          ///< how tensors on GPUs use NCCL
  Checking checking = Checking::kOn;       ///< whether members compare what they call
  std::uint64_t groups = 0;                ///< how many this rank has joined
};

/// @brief What one rank keeps for one group.
struct GroupState {
  std::shared_ptr<RankState> own;        ///< of this rank
  std::shared_ptr<Transport> transport;  ///< carries the data
  std::shared_ptr<Transport> control;    ///< the same without the slowed link: roll calls, splits
  std::string name;                      ///< for messages and timelines
  std::uint64_t id = 0;                  ///< its number among this rank's groups
  std::uint32_t sequence = 0;            ///< of the next collective
  std::uint32_t splits = 0;              ///< how often it was split
  std::shared_ptr<Operation> pending;    ///< numbered, not yet issued; null: all are issued
  std::map<std::pair<int, int>, std::uint32_t> sent;      ///< messages by (peer, channel)
  std::map<std::pair<int, int>, std::uint32_t> received;  ///< messages by (peer, channel)
  /// What the messages of barriers may carry; made once, because barriers are frequent.
  Tensor barrier_element = Tensor::zeros(Device::cpu(), {1}, DType::kI32);

  /// @brief Joins a group over `control`.
  [[nodiscard]] static std::shared_ptr<GroupState> join(std::shared_ptr<RankState> own,
                                                        std::shared_ptr<Transport> control,
                                                        std::string name);

  /// @brief Throws ConfigError when the call before was never issued: its number is a gap.
  void expect_all_issued() const;
  /// @brief Gives a collective its group and its number. @throws what expect_all_issued throws.
  void number(OperationInfo& info);
};

}  // namespace ultra::comm

/// @brief A handle's part: the group, and how operations that this handle issues are done and named.
struct ultra::Communicator::State {
  std::shared_ptr<comm::GroupState> group;                       ///< shared by all handles
  std::shared_ptr<const comm::CollectiveAlgorithms> algorithms;  ///< null: the platform's own
  std::string label;                                             ///< empty: none
};
