#include <numeric>
#include <thread>
#include <utility>

#include "common/comm/backend/threads/direct_collective.hpp"
#include "common/comm/backend/threads/thread_world.hpp"
#include "common/comm/engine/operation.hpp"

namespace ultra::comm::threads {
namespace {

class SendRequest : public Request {
 public:
  SendRequest(ThreadWorld& world, int peer, std::shared_ptr<Posted> message)
      : world_(world), peer_(peer), message_(std::move(message)) {}
  SendRequest(const SendRequest&) = delete;
  SendRequest& operator=(const SendRequest&) = delete;
  ~SendRequest() override {
    if (test() || world_.mailbox(peer_).withdraw(*message_)) return;
    // The receiver is copying from this rank's memory: it is done in a moment.
    while (!test()) std::this_thread::yield();
  }

  bool test() override { return message_->stage.load() == Posted::Stage::kDone; }
  gpu::Event ended_at() const override { return message_->taken; }

 private:
  ThreadWorld& world_;
  int peer_;
  std::shared_ptr<Posted> message_;
};

class ReceiveRequest : public Request {
 public:
  ReceiveRequest(ThreadWorld& world, int rank, const Landing& landing, const Envelope& envelope)
      : world_(world),
        rank_(rank),
        landing_(landing),
        source_(envelope.source),
        receive_(world.mailbox(rank).expect(envelope)) {}
  ReceiveRequest(const ReceiveRequest&) = delete;
  ReceiveRequest& operator=(const ReceiveRequest&) = delete;
  ~ReceiveRequest() override {
    if (!done_) world_.mailbox(rank_).forget(receive_);
  }

  bool test() override {
    if (done_) return true;
    const auto taken = world_.mailbox(rank_).take(receive_, landing_);
    if (!taken.message) return false;
    done_ = true;
    take_in(*taken.message);
    world_.bell(source_).ring();
    if (taken.next_waits) world_.bell(rank_).ring();
    return true;
  }

  gpu::Event ended_at() const override { return filled_; }

 private:
  /// The sender gets its memory back, also from a receiver that throws.
  struct GivesBack {
    Posted& message;
    ~GivesBack() { message.stage.store(Posted::Stage::kDone); }
  };

  void take_in(Posted& message) {
    const GivesBack gives_back{message};
    if (landing_.place.device) {
      land_on(*landing_.place.device, message);
    } else {
      land(host_memory(), message.data);
    }
  }

  void land(const MemoryOps& memory, std::span<const std::byte> data) const {
    if (landing_.combine) {
      memory.combine(*landing_.combine, landing_.memory.data(), data.data(),
                     data.size() / size_of(landing_.combine->dtype));
    } else {
      memory.copy(landing_.memory.data(), data.data(), data.size());
    }
  }

  void land_on(const DeviceMemory& memory, Posted& message) {
    memory.after(message.place.ready);
    memory.after(landing_.place.ready);
    land(memory, message.data);
    filled_ = memory.record();
    message.taken = filled_;
  }

  ThreadWorld& world_;
  int rank_;
  Landing landing_;
  int source_;
  std::uint64_t receive_;
  gpu::Event filled_;  // on a device
  bool done_ = false;
};

/// A name for a new group that all members compute alike.
std::uint64_t mix(std::uint64_t context, std::uint64_t value) {
  std::uint64_t x = context * 0x9E3779B97F4A7C15ULL + value + 1;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

class ThreadTransport : public Transport {
 public:
  ThreadTransport(std::shared_ptr<ThreadWorld> world, std::vector<int> members, int rank,
                  std::uint64_t context)
      : world_(std::move(world)),
        members_(std::move(members)),
        rank_(rank),
        context_(context),
        board_(world_->board(context, members_)) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  int world_rank(int member) const override { return members_[static_cast<std::size_t>(member)]; }

  std::unique_ptr<Request> isend(const Parcel& parcel, int peer, Tag tag) override {
    const int to = world_rank(peer);
    auto message = std::make_shared<Posted>(envelope(rank_, tag), parcel);
    auto request = std::make_unique<SendRequest>(*world_, to, message);
    world_->mailbox(to).post(std::move(message));
    world_->bell(to).ring();
    return request;
  }

  std::unique_ptr<Request> irecv(const Landing& landing, int peer, Tag tag) override {
    return std::make_unique<ReceiveRequest>(*world_, world_rank(rank_), landing,
                                            envelope(peer, tag));
  }

  std::unique_ptr<Transport> subgroup(std::span<const int> members,
                                      std::uint32_t sequence) override {
    std::vector<int> world_members;
    int rank = 0;
    for (const int member : members) {
      if (member == rank_) rank = static_cast<int>(world_members.size());
      world_members.push_back(world_rank(member));
    }
    std::uint64_t context = mix(context_, sequence);
    for (const int member : world_members)
      context = mix(context, static_cast<std::uint64_t>(member));
    return std::make_unique<ThreadTransport>(world_, std::move(world_members), rank, context);
  }

  std::shared_ptr<Operation> native(const CollectiveCall& call, Checking) override {
    return make_direct(call, board_, rank_, direct_operations_++);
  }

 private:
  Envelope envelope(int sender, Tag tag) const {
    return {.source = world_rank(sender), .context = context_, .tag = tag};
  }

  std::shared_ptr<ThreadWorld> world_;
  std::vector<int> members_;
  int rank_;
  std::uint64_t context_;
  std::shared_ptr<DirectBoard> board_;
  std::uint64_t direct_operations_ = 0;
};

}  // namespace

std::unique_ptr<Transport> make_transport(std::shared_ptr<ThreadWorld> world, int rank) {
  std::vector<int> members(static_cast<std::size_t>(world->size()));
  std::iota(members.begin(), members.end(), 0);
  return std::make_unique<ThreadTransport>(std::move(world), std::move(members), rank, 1);
}

}  // namespace ultra::comm::threads
