#include "common/comm/backend/mpi/mpi_transport.hpp"

#include <utility>

#include "common/comm/backend/mpi/message.hpp"
#include "common/comm/backend/mpi/mpi_tag.hpp"
#include "common/comm/backend/mpi/native_collective.hpp"

namespace ultra::comm::mpi {
MPI_Comm RunCommunicators::make(MPI_Comm parent, std::span<const int> members, int tag) {
  MPI_Group all = MPI_GROUP_NULL;
  MPI_Group some = MPI_GROUP_NULL;
  MPI_Comm made = MPI_COMM_NULL;
  check(MPI_Comm_group(parent, &all), "MPI_Comm_group");
  check(MPI_Group_incl(all, static_cast<int>(members.size()), members.data(), &some),
        "MPI_Group_incl");
  check(MPI_Comm_create_group(parent, some, tag, &made), "MPI_Comm_create_group");
  MPI_Group_free(&some);
  MPI_Group_free(&all);
  MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
  made_.push_back(made);
  return made;
}

void RunCommunicators::free_all() {
  for (MPI_Comm& comm : made_) check(MPI_Comm_free(&comm), "MPI_Comm_free");
  made_.clear();
}

MpiTransport::MpiTransport(Session& session, std::shared_ptr<RunCommunicators> comms, MPI_Comm comm,
                           std::vector<int> worlds)
    : session_(session), comms_(std::move(comms)), comm_(comm), worlds_(std::move(worlds)) {
  const auto lock = session_.lock();
  check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
}

std::unique_ptr<Request> MpiTransport::isend(const Parcel& parcel, int peer, Tag tag) {
  return start_send(
      session_, {.comm = comm_, .peer = peer, .tag = mpi_tag(tag, session_.tag_bits())}, parcel);
}

std::unique_ptr<Request> MpiTransport::irecv(const Landing& landing, int peer, Tag tag) {
  return start_receive(
      session_, {.comm = comm_, .peer = peer, .tag = mpi_tag(tag, session_.tag_bits())}, landing);
}

std::unique_ptr<Transport> MpiTransport::subgroup(std::span<const int> members,
                                                  std::uint32_t sequence) {
  std::vector<int> worlds;
  for (const int member : members) worlds.push_back(world_rank(member));
  const auto lock = session_.lock();
  const int tag = static_cast<int>(sequence % 1024U);
  const MPI_Comm comm = comms_->make(comm_, members, tag);
  return std::make_unique<MpiTransport>(session_, comms_, comm, std::move(worlds));
}

std::shared_ptr<Operation> MpiTransport::native(const CollectiveCall& call, Checking checking) {
  return make_native(session_, std::make_shared<MpiTransport>(*this), comm_, call, checking);
}

}  // namespace ultra::comm::mpi
