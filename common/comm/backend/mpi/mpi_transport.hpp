#pragma once
/// @file
/// MpiTransport: messages between the ranks of a group over an MPI communicator of its own.

#include <mpi.h>

#include <memory>
#include <vector>

#include "common/comm/backend/mpi/session.hpp"
#include "common/comm/transport.hpp"

namespace ultra::comm::mpi {

/// @brief The MPI communicators that one run has made.
///
/// MPI may give a freed communicator's number to a new one, whose receives then take late messages
/// of the old. So all are freed at the end of the run, in the order in which they were made, when
/// every rank has ended well; those of a run that failed are never freed.
class RunCommunicators {
 public:
  RunCommunicators() = default;
  RunCommunicators(const RunCommunicators&) = delete;
  RunCommunicators& operator=(const RunCommunicators&) = delete;

  /// @brief A communicator for members of `parent`: Collective over those members only.
  /// @param members  their ranks in `parent`, in the new order.
  /// @param tag      tells apart creations that go on at the same time; the same on all members.
  [[nodiscard]] MPI_Comm make(MPI_Comm parent, std::span<const int> members, int tag);
  /// @brief Frees all. Collective over the run.
  void free_all();

 private:
  std::vector<MPI_Comm> made_;
};

/// @brief A Transport over MPI. Must not be used after its run.
class MpiTransport final : public Transport {
 public:
  /// @param comm    of `comms`; must contain this rank.
  /// @param worlds  each member's rank in the world.
  MpiTransport(Session& session, std::shared_ptr<RunCommunicators> comms, MPI_Comm comm,
               std::vector<int> worlds);

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return static_cast<int>(worlds_.size()); }
  [[nodiscard]] int world_rank(int member) const override {
    return worlds_.at(static_cast<std::size_t>(member));
  }
  [[nodiscard]] std::unique_ptr<Request> isend(const Parcel& parcel, int peer, Tag tag) override;
  [[nodiscard]] std::unique_ptr<Request> irecv(const Landing& landing, int peer, Tag tag) override;
  [[nodiscard]] std::unique_ptr<Transport> subgroup(std::span<const int> members,
                                                    std::uint32_t sequence) override;
  [[nodiscard]] bool subgroup_blocks() const override { return true; }
  [[nodiscard]] std::shared_ptr<Operation> native(const CollectiveCall& call,
                                                  Checking checking) override;

 private:
  Session& session_;
  std::shared_ptr<RunCommunicators> comms_;
  MPI_Comm comm_;
  int rank_ = 0;
  std::vector<int> worlds_;
};

}  // namespace ultra::comm::mpi
