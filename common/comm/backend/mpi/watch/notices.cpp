#include "common/comm/backend/mpi/watch/notices.hpp"

#include <algorithm>
#include <cstring>

#include "common/comm/backend/mpi/session.hpp"

namespace ultra::comm::mpi {

Notices::Notices() {
  check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  int size = 1;
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size);
  standings_.resize(static_cast<std::size_t>(size));
  listen();
}

void Notices::tell_begin(std::uint32_t run, int world_size) {
  auto& own = standings_[static_cast<std::size_t>(rank_)];
  own.begun = run;
  own.world_size = world_size;
  tell({.kind = Kind::kBegin, .run = run, .value = world_size, .error = {}}, "");
}

void Notices::tell_end(std::uint32_t run, const std::optional<Failure>& failure) {
  standings_[static_cast<std::size_t>(rank_)].ended = run;
  if (failure) {
    note_failure(run, *failure);
    tell({.kind = Kind::kFailedEnd, .run = run, .value = failure->rank, .error = failure->kind},
         failure->text);
  } else {
    tell({.kind = Kind::kEnd, .run = run, .value = 0, .error = {}}, "");
  }
}

void Notices::tell_leave() {
  standings_[static_cast<std::size_t>(rank_)].left = true;
  tell({.kind = Kind::kLeave, .run = 0, .value = 0, .error = {}}, "");
}

void Notices::tell(const Header& header, const std::string& text) {
  const std::size_t length = std::min(text.size(), kLongest - sizeof header);
  Sent& sent = sent_.emplace_back();
  sent.bytes.resize(sizeof header + length);
  std::memcpy(sent.bytes.data(), &header, sizeof header);
  text.copy(sent.bytes.data() + sizeof header, length);
  const int size = static_cast<int>(standings_.size());
  for (int i = 1; i < size; ++i) {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Isend(sent.bytes.data(), static_cast<int>(sent.bytes.size()), MPI_BYTE,
                    (rank_ + i) % size, 0, comm_, &request),
          "MPI_Isend");
    sent.requests.push_back(request);
  }
}

void Notices::listen() {
  check(MPI_Irecv(incoming_.data(), static_cast<int>(incoming_.size()), MPI_BYTE, MPI_ANY_SOURCE, 0,
                  comm_, &listening_),
        "MPI_Irecv");
}

void Notices::poll() {
  std::erase_if(sent_, [](Sent& sent) {
    int done = 0;
    check(MPI_Testall(static_cast<int>(sent.requests.size()), sent.requests.data(), &done,
                      MPI_STATUSES_IGNORE),
          "MPI_Testall");
    return done != 0;
  });
  while (true) {
    int done = 0;
    MPI_Status status;
    check(MPI_Test(&listening_, &done, &status), "MPI_Test");
    if (done == 0) return;
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    take(status.MPI_SOURCE, static_cast<std::size_t>(bytes));
    listen();
  }
}

void Notices::take(int from, std::size_t bytes) {
  Header header{};
  std::memcpy(&header, incoming_.data(), sizeof header);
  Standing& standing = standings_[static_cast<std::size_t>(from)];
  switch (header.kind) {
    case Kind::kBegin:
      standing.begun = header.run;
      standing.world_size = header.value;
      break;
    case Kind::kFailedEnd:
      note_failure(header.run,
                   {.rank = header.value,
                    .kind = header.error,
                    .text = std::string(incoming_.data() + sizeof header, bytes - sizeof header)});
      standing.ended = header.run;
      break;
    case Kind::kEnd:
      standing.ended = header.run;
      break;
    case Kind::kLeave:
      standing.left = true;
      break;
  }
}

std::optional<Failure> Notices::failure_of(std::uint32_t run) const {
  if (failed_run_ != run) return std::nullopt;
  return failure_;
}

void Notices::note_failure(std::uint32_t run, const Failure& failure) {
  if (run <= failed_run_) return;  // the first one is the cause
  failed_run_ = run;
  failure_ = failure;
}

}  // namespace ultra::comm::mpi
