#include "common/comm/backend/mpi/message.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "common/comm/comm_error.hpp"

namespace ultra::comm::mpi {
namespace {

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

}  // namespace

std::unique_ptr<Request> start_send(Session& session, const Address& to, const Parcel& parcel) {
  return std::make_unique<Send>(session, to, parcel);
}

std::unique_ptr<Request> start_receive(Session& session, const Address& from,
                                       const Landing& landing) {
  return std::make_unique<Receive>(session, from, landing);
}

}  // namespace ultra::comm::mpi
