#pragma once
/// @file
/// The plainest collectives that are right: for tests of what carries schedules out.

#include "common/comm/collectives/collective_algorithms.hpp"

namespace ultra::test {

/// @brief Everything goes through one rank: it gathers or reduces in the order of the ranks and
/// sends the result back.
class StarAlgorithms : public comm::CollectiveAlgorithms {
 public:
  comm::Schedule broadcast(const comm::Group& group, std::size_t count, int root) const override;
  comm::Schedule reduce(const comm::Group& group, std::size_t count, int root) const override;
  comm::Schedule all_reduce(const comm::Group& group, std::size_t count,
                            std::size_t element_bytes) const override;
  comm::Schedule gather(const comm::Group& group, const comm::Chunks& chunks,
                        int root) const override;
  comm::Schedule scatter(const comm::Group& group, const comm::Chunks& chunks,
                         int root) const override;
  comm::Schedule all_gather(const comm::Group& group, const comm::Chunks& chunks) const override;
  comm::Schedule reduce_scatter(const comm::Group& group,
                                const comm::Chunks& chunks) const override;
  comm::Schedule all_to_all(const comm::Group& group, const comm::Chunks& sent,
                            const comm::Chunks& received) const override;
  comm::Schedule barrier(const comm::Group& group) const override;
};

}  // namespace ultra::test
