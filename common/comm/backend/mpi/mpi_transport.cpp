#include "common/comm/backend/mpi/mpi_transport.hpp"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/comm/backend/mpi/mpi_tag.hpp"
#include "common/comm/backend/mpi/native_collective.hpp"
#include "common/comm/backend/mpi/session.hpp"
#include "common/comm/comm_error.hpp"
#include "common/comm/transport.hpp"

namespace ultra::comm::mpi {
namespace {

// Messages, cut into segments.
//
// A message of n bytes travels as n / kSegment full segments and one of n % kSegment bytes, which may
// be empty: the short segment is its end, so that a receiver that expects another size always sees
// it. Segments let a receiver combine one while the next arrives, in memory that stays in the cache,
// and no message is too long for MPI's int.
//
// A receive looks at the size of what is there before it takes it (matched probe). It must: Open MPI
// 4.1 writes a message that is too long past the end of the receiver's memory when it copies from
// process to process (btl_vader's CMA), before it reports the truncation.

/// Bytes of a full segment.
constexpr std::size_t kSegment = std::size_t{512} * 1024;
/// Segments of one message that are under way at the same time.
constexpr int kWindow = 2;

/// The segments of a message.
struct Segments {
  std::size_t bytes;

  [[nodiscard]] std::size_t count() const { return bytes / kSegment + 1; }
  [[nodiscard]] std::size_t begin(std::size_t index) const { return index * kSegment; }
  [[nodiscard]] std::size_t size(std::size_t index) const {
    return std::min(kSegment, bytes - begin(index));
  }
};

/// The segments under way: posted in order, and taken in order. Requests are kept by their index
/// modulo the window.
class Window {
 public:
  [[nodiscard]] bool full() const { return posted_ - taken_ == kWindow; }
  [[nodiscard]] bool empty() const { return posted_ == taken_; }
  [[nodiscard]] std::size_t posted() const { return posted_; }
  [[nodiscard]] std::size_t taken() const { return taken_; }
  [[nodiscard]] MPI_Request& first() { return requests_[taken_ % kWindow]; }
  [[nodiscard]] MPI_Request& next() { return requests_[posted_ % kWindow]; }
  void post() { ++posted_; }
  void take() { ++taken_; }

 private:
  std::array<MPI_Request, kWindow> requests_{};
  std::size_t posted_ = 0;
  std::size_t taken_ = 0;
};

bool has_ended(MPI_Request& request) {
  int done = 0;
  check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
  return done != 0;
}

static_assert(kWindow * kSegment <= Session::kScratchBytes);

class Send final : public Request {
 public:
  Send(Session& session, const Address& to, const Parcel& parcel)
      : session_(session), to_(to), parcel_(parcel), segments_{parcel.memory.size()} {
    const auto lock = session_.lock();
    post();
  }
  Send(const Send&) = delete;
  Send& operator=(const Send&) = delete;

  ~Send() override {
    const auto lock = session_.lock();
    for (; !window_.empty(); window_.take()) {
      session_.bury(window_.first(), parcel_.owner);
    }
  }

  bool test() override {
    const auto lock = session_.lock();
    while (!window_.empty() && has_ended(window_.first())) {
      window_.take();
      session_.count_move();
      post();
    }
    return window_.empty();
  }

 private:
  void post() {
    for (; !window_.full() && window_.posted() < segments_.count(); window_.post()) {
      const std::size_t index = window_.posted();
      check(MPI_Isend(parcel_.memory.data() + segments_.begin(index),
                      static_cast<int>(segments_.size(index)), MPI_BYTE, to_.peer, to_.tag,
                      to_.comm, &window_.next()),
            "MPI_Isend");
    }
  }

  Session& session_;
  Address to_;
  Parcel parcel_;
  Segments segments_;
  Window window_;
};

class Receive final : public Request {
 public:
  Receive(Session& session, const Address& from, const Landing& landing)
      : session_(session), from_(from), landing_(landing), segments_{landing.memory.size()} {
    const auto lock = session_.lock();
    if (landing_.combine) scratch_ = session_.take_scratch();
    session_.line().enter(this, from_);
  }
  Receive(const Receive&) = delete;
  Receive& operator=(const Receive&) = delete;

  ~Receive() override {
    const auto lock = session_.lock();
    session_.line().leave(this);
    for (; !window_.empty(); window_.take()) {
      if (session_.ends_soon(window_.first())) continue;
      session_.bury(window_.first(),
                    scratch_ ? std::shared_ptr<const void>(scratch_) : landing_.owner);
    }
    if (scratch_ && scratch_.use_count() == 1) session_.return_scratch(std::move(scratch_));
  }

  bool test() override {
    const auto lock = session_.lock();
    do {
      while (!window_.empty() && has_ended(window_.first())) take();
    } while (!window_.full() && window_.posted() < segments_.count() && post());
    return window_.taken() == segments_.count();
  }

 private:
  /// Where segment `index` arrives.
  [[nodiscard]] std::byte* place(std::size_t index) {
    if (landing_.combine) return scratch_.get() + (index % kWindow) * kSegment;
    return landing_.memory.data() + segments_.begin(index);
  }

  /// Begins to receive the next segment, if it is there.
  bool post() {
    if (!session_.line().is_first(this, from_)) return false;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    int there = 0;
    check(MPI_Improbe(from_.peer, from_.tag, from_.comm, &there, &message, &status), "MPI_Improbe");
    if (there == 0) return false;
    const std::size_t index = window_.posted();
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    expect_size(index, static_cast<std::size_t>(bytes));
    check(MPI_Imrecv(place(index), bytes, MPI_BYTE, &message, &window_.next()), "MPI_Imrecv");
    window_.post();
    if (window_.posted() == segments_.count()) session_.line().leave(this);
    return true;
  }

  void take() {
    const std::size_t index = window_.taken();
    if (landing_.combine) {
      combine(*landing_.combine, landing_.memory.data() + segments_.begin(index), place(index),
              segments_.size(index) / size_of(landing_.combine->dtype));
    }
    window_.take();
    session_.count_move();
  }

  void expect_size(std::size_t index, std::size_t bytes) const {
    if (bytes == segments_.size(index)) return;
    throw CommMismatch(fmt::format("rank {} sends {}{} bytes where this rank expects {}",
                                   from_.peer, bytes == kSegment ? "at least " : "",
                                   segments_.begin(index) + bytes, segments_.bytes));
  }

  Session& session_;
  Address from_;
  Landing landing_;
  Segments segments_;
  Window window_;
  std::shared_ptr<std::byte[]> scratch_;
};

/// Begins to send.
///
/// MPI cannot withdraw a send: a receiver may still find it, and read the memory, until the run is
/// over. Destroyed early, the request leaves the session the parcel's owner until then.
std::unique_ptr<Request> start_send(Session& session, const Address& to, const Parcel& parcel) {
  return std::make_unique<Send>(session, to, parcel);
}

/// Begins to receive. Destroyed early, it takes nothing any more; for a segment that is arriving
/// just then, the session keeps the landing's owner.
std::unique_ptr<Request> start_receive(Session& session, const Address& from,
                                       const Landing& landing) {
  return std::make_unique<Receive>(session, from, landing);
}

}  // namespace

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
