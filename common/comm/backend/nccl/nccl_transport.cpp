#include "common/comm/backend/nccl/nccl_transport.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "common/base/errors.hpp"
#include "common/comm/backend/nccl/nccl_collective.hpp"
#include "common/comm/comm_error.hpp"
#include "common/comm/engine/operation.hpp"
#include "common/tensor/device.hpp"

namespace ultra::comm::nccl {
namespace {

constexpr int kSender = 0;
constexpr int kReceiver = 1;

/// Two members of a group as a group of their own, in which member 0 sends and member 1 receives.
class Pair final : public Transport {
 public:
  /// Messages on a pair's way, beside the card of NcclGroup, which is number 0.
  enum Number : std::uint32_t { kAsked = 1, kNext = 2, kNumbers = 3 };

  Pair(std::shared_ptr<Transport> group, int sender, int receiver)
      : group_(std::move(group)), members_{sender, receiver} {}

  int rank() const override { return group_->rank() == members_[kSender] ? kSender : kReceiver; }
  int size() const override { return 2; }
  int world_rank(int member) const override { return group_->world_rank(at(member)); }

  std::unique_ptr<Request> isend(const Parcel& parcel, int peer, Tag tag) override {
    return group_->isend(parcel, at(peer), own(tag));
  }
  std::unique_ptr<Request> irecv(const Landing& landing, int peer, Tag tag) override {
    return group_->irecv(landing, at(peer), own(tag));
  }
  std::unique_ptr<Transport> subgroup(std::span<const int>, std::uint32_t) override {
    throw InternalError("a pair is not split");
  }
  std::shared_ptr<Operation> native(const CollectiveCall&, Checking) override {
    throw InternalError("a pair has no collectives");
  }

 private:
  [[nodiscard]] int at(int member) const { return members_[static_cast<std::size_t>(member)]; }

  /// Apart from the group's own tag of this kind, and from those of the way back.
  [[nodiscard]] Tag own(Tag tag) const {
    const bool up = members_[kSender] < members_[kReceiver];
    tag.sequence += up ? 1 : 1 + kNumbers;
    return tag;
  }

  std::shared_ptr<Transport> group_;
  std::array<int, 2> members_;
};

/// What a receiver asks for, and what its sender says is next; plain bytes on the wire.
struct Note {
  Tag tag;
  std::uint64_t bytes;
};

/// Notes that one side writes and the other reads, in order.
class Notes {
 public:
  Notes(std::shared_ptr<Transport> pair, std::uint32_t number)
      : pair_(std::move(pair)), tag_(NcclGroup::kTag) {
    tag_.sequence += number;
  }

  void write(const Note& note) {
    const auto kept = std::make_shared<const Note>(note);
    written_.push_back({kept, pair_->isend({std::as_bytes(std::span(kept.get(), 1)), kept},
                                           1 - pair_->rank(), tag_)});
  }

  /// The next note; nothing while none has come.
  std::optional<Note> read() {
    if (!reading_) {
      coming_ = std::make_shared<Note>();
      reading_ = pair_->irecv({std::as_writable_bytes(std::span(coming_.get(), 1)), {}, coming_},
                              1 - pair_->rank(), tag_);
    }
    if (!reading_->test()) return std::nullopt;
    reading_.reset();
    return *coming_;
  }

  /// Whether the other side has what was written.
  bool are_there() {
    std::erase_if(written_, [](const Written& written) { return written.request->test(); });
    return written_.empty();
  }

 private:
  struct Written {
    std::shared_ptr<const Note> note;
    std::unique_ptr<Request> request;
  };

  std::shared_ptr<Transport> pair_;
  Tag tag_;
  std::deque<Written> written_;
  std::shared_ptr<Note> coming_;
  std::unique_ptr<Request> reading_;
};

class Way;

/// This rank's end of a message.
class Message final : public Request {
 public:
  using Contents = std::variant<Parcel, Landing>;

  Message(std::shared_ptr<Way> way, Contents contents, int peer, Tag tag);
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;
  ~Message() override;

  bool test() override;
  gpu::Event ended_at() const override { return detour_ ? detour_->ended_at() : end_; }

 private:
  friend class Way;

  [[nodiscard]] std::size_t bytes() const {
    return std::visit([](const auto& contents) { return contents.memory.size(); }, contents_);
  }
  [[nodiscard]] const Place& place() const {
    return std::visit([](const auto& contents) -> const Place& { return contents.place; },
                      contents_);
  }

  std::shared_ptr<Way> way_;
  Contents contents_;
  int peer_;
  Tag tag_;
  Tensor scratch_;  // what has arrived and is to be combined
  bool has_ended_ = false;
  std::string fault_;  // why it ends with a CommMismatch; empty: it ends well
  gpu::Event end_;
  std::unique_ptr<Request> detour_;  // over the other transport, where NCCL cannot be used
};

/// The way of messages from one rank to another; each of the two has an object for it.
class Way {
 public:
  Way(std::shared_ptr<Transport> inner, const std::shared_ptr<Transport>& control, int peer,
      bool sends, const Use& use, std::shared_ptr<Polling> polling)
      : inner_(std::move(inner)),
        pair_(std::make_shared<Pair>(control, sends ? control->rank() : peer,
                                     sends ? peer : control->rank())),
        nccl_(pair_, Use{.otherwise = Use::Otherwise::kInner, .library = use.library}),
        polling_(std::move(polling)) {}

  void post(Message& message) {
    if (is_detour()) return take_detour(message);
    queued_.push_back(&message);
    if (stage_ == Stage::kConnected) ask_for(message);
  }

  void withdraw(Message& message) {
    std::erase(queued_, &message);
    const bool called = called_ == &message;
    if (called) called_ = nullptr;
    // What the other side counts on cannot be taken back.
    if (called || (!sends() && stage_ == Stage::kConnected)) nccl_.abort();
  }

  /// Moves all messages of the way along.
  void advance(const Device& device) {
    try {
      if (!is_detour() && !nccl_.advance(device)) {
        if (nccl_.connects() && !polled_) polled_.emplace(polling_);
        return;
      }
      if (stage_ == Stage::kConnecting) begin();
      while (!is_detour() && has_called() && call_next()) {
      }
    } catch (const CommError& error) {
      nccl_.abort();
      throw CommError(fmt::format("NCCL's messages from rank {} to rank {}: {}",
                                  pair_->world_rank(kSender), pair_->world_rank(kReceiver),
                                  error.what()));
    }
  }

  void check_device() const {
    if (nccl_.is_connected()) static_cast<void>(nccl_.is_enqueued());
  }
  void abort() { nccl_.abort(); }

 private:
  enum class Stage : std::uint8_t { kConnecting, kConnected, kDetour };

  [[nodiscard]] bool sends() const { return pair_->rank() == kSender; }
  [[nodiscard]] bool is_detour() const { return stage_ == Stage::kDetour; }

  void begin() {
    polled_.reset();
    stage_ = nccl_.is_connected() ? Stage::kConnected : Stage::kDetour;
    if (is_detour()) {
      for (Message* const message : std::exchange(queued_, {})) take_detour(*message);
    } else {
      for (const Message* const message : queued_) ask_for(*message);
    }
  }

  void ask_for(const Message& message) {
    if (!sends()) asked_.write(note_of(message));
  }

  static Note note_of(const Message& message) {
    return {.tag = message.tag_, .bytes = message.bytes()};
  }

  void take_detour(Message& message) {
    if (const auto* const parcel = std::get_if<Parcel>(&message.contents_)) {
      message.detour_ = inner_->isend(*parcel, message.peer_, message.tag_);
    } else {
      message.detour_ =
          inner_->irecv(std::get<Landing>(message.contents_), message.peer_, message.tag_);
    }
  }

  /// Whether what was called is in the stream, and the other side knows: a communicator takes one call
  /// after the other.
  bool has_called() {
    if (called_ == nullptr) return true;
    if (!nccl_.is_enqueued() || !next_.are_there()) return false;
    polled_.reset();
    finish(*std::exchange(called_, nullptr));
    return true;
  }

  /// Calls NCCL for the message that is next on both sides; false when there is none yet.
  bool call_next() {
    if (queued_.empty()) return false;
    return sends() ? send_next() : receive_next();
  }

  bool send_next() {
    while (const std::optional<Note> note = asked_.read()) wanted_.push_back(*note);
    for (auto note = wanted_.begin(); note != wanted_.end(); ++note) {
      Message* const message = find(note->tag);
      if (message == nullptr) continue;
      const bool fits = note->bytes == message->bytes();  // if not, the receiver says so
      wanted_.erase(note);
      next_.write(note_of(*message));
      call(*message);
      if (fits && message->bytes() > 0) send(std::get<Parcel>(message->contents_));
      return true;
    }
    return false;
  }

  bool receive_next() {
    const std::optional<Note> next = next_.read();
    if (!next) return false;
    Message* const message = find(next->tag);
    ensure(message != nullptr, "a sender answers what was asked");
    call(*message);
    if (next->bytes != message->bytes()) {
      message->fault_ = fmt::format("rank {} sends {} bytes where this rank expects {}",
                                    pair_->world_rank(kSender), next->bytes, message->bytes());
      return true;
    }
    if (message->bytes() > 0) receive(*message, std::get<Landing>(message->contents_));
    return true;
  }

  [[nodiscard]] Message* find(const Tag& tag) const {
    for (Message* const message : queued_) {
      if (message->tag_ == tag) return message;
    }
    return nullptr;
  }

  void call(Message& message) {
    std::erase(queued_, &message);
    called_ = &message;
    polled_.emplace(polling_);
  }

  void send(const Parcel& parcel) {
    const gpu::Region region{.begin = parcel.memory.data(), .bytes = parcel.memory.size()};
    nccl_.streams().wait(NcclGroup::kRole, parcel.place.ready);
    const gpu::Launch launch(nccl_.streams(), NcclGroup::kRole, parcel.place.device->operation(),
                             {region}, {});
    const Library& library = nccl_.library();
    library.check(library.send(parcel.memory.data(), parcel.memory.size(), DataType::kInt8,
                               kReceiver, nccl_.comm(), launch.queue().stream.handle),
                  "ncclSend", nccl_.comm());
  }

  void receive(Message& message, const Landing& landing) {
    void* into = landing.memory.data();
    gpu::Event ready = landing.place.ready;
    const DeviceMemory& memory = *landing.place.device;
    if (landing.combine) {
      const gpu::StreamScope scope(NcclGroup::kRole);
      memory.after(ready);
      const DType dtype = landing.combine->dtype;
      message.scratch_ = Tensor::empty(memory.device(), {landing.memory.size() / size_of(dtype)},
                                       dtype, MemoryCategory::kCommunication);
      into = message.scratch_.address();
      ready = memory.record();
    }
    const gpu::Region region{.begin = into, .bytes = landing.memory.size()};
    nccl_.streams().wait(NcclGroup::kRole, ready);
    const gpu::Launch launch(nccl_.streams(), NcclGroup::kRole, memory.operation(), {}, {region});
    const Library& library = nccl_.library();
    library.check(library.receive(into, landing.memory.size(), DataType::kInt8, kSender,
                                  nccl_.comm(), launch.queue().stream.handle),
                  "ncclRecv", nccl_.comm());
  }

  void finish(Message& message) {
    message.has_ended_ = true;
    message.end_ = nccl_.streams().record(NcclGroup::kRole);
    if (!message.scratch_.defined()) return;
    const auto& landing = std::get<Landing>(message.contents_);
    const DeviceMemory& memory = *landing.place.device;
    const gpu::StreamScope scope(NcclGroup::kRole);
    memory.after(message.end_);
    memory.combine(*landing.combine, landing.memory.data(), message.scratch_.address(),
                   message.scratch_.numel());
    message.end_ = memory.record();
    message.scratch_ = {};
  }

  std::shared_ptr<Transport> inner_;
  std::shared_ptr<Pair> pair_;
  NcclGroup nccl_;
  std::shared_ptr<Polling> polling_;
  Stage stage_ = Stage::kConnecting;
  std::deque<Message*> queued_;  // in the order in which they were posted
  Message* called_ = nullptr;    // on its way into the stream
  std::optional<Polled> polled_;
  std::deque<Note> wanted_;  // asked for, and not posted here yet
  Notes asked_{pair_, Pair::kAsked};
  Notes next_{pair_, Pair::kNext};
};

Message::Message(std::shared_ptr<Way> way, Contents contents, int peer, Tag tag)
    : way_(std::move(way)), contents_(std::move(contents)), peer_(peer), tag_(tag) {
  way_->post(*this);
}

Message::~Message() {
  if (!detour_ && !has_ended_) way_->withdraw(*this);
}

bool Message::test() {
  if (!detour_ && !has_ended_) way_->advance(place().device->device());
  if (has_ended_ && !fault_.empty()) throw CommMismatch(fault_);
  return detour_ ? detour_->test() : has_ended_;
}

class NcclTransport final : public Transport {
 public:
  NcclTransport(std::shared_ptr<Transport> inner, std::shared_ptr<Transport> control, Use use,
                std::shared_ptr<Polling> polling)
      : inner_(std::move(inner)),
        control_(std::move(control)),
        use_(std::move(use)),
        polling_(std::move(polling)),
        group_(std::make_shared<NcclGroup>(control_, use_)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  int world_rank(int member) const override { return inner_->world_rank(member); }

  std::unique_ptr<Request> isend(const Parcel& parcel, int peer, Tag tag) override {
    if (!is_for_nccl(parcel.place, peer)) return inner_->isend(parcel, peer, tag);
    return std::make_unique<Message>(way(peer, true), parcel, peer, tag);
  }
  std::unique_ptr<Request> irecv(const Landing& landing, int peer, Tag tag) override {
    if (!is_for_nccl(landing.place, peer)) return inner_->irecv(landing, peer, tag);
    return std::make_unique<Message>(way(peer, false), landing, peer, tag);
  }
  std::unique_ptr<Transport> subgroup(std::span<const int>, std::uint32_t) override {
    throw InternalError("groups are split over the control transport");
  }

  std::shared_ptr<Operation> native(const CollectiveCall& call, Checking checking) override {
    if (!is_for_nccl(call.info.device) || size() == 1) return inner_->native(call, checking);
    std::shared_ptr<Operation> inner;
    if (use_.otherwise == Use::Otherwise::kInner) inner = inner_->native(call, checking);
    return make_collective(call, group_, control_, std::move(inner), checking, polling_);
  }

  void check_device() override {
    for (const auto& [ends, way] : ways_) way->check_device();
  }
  void abort() override {
    for (const auto& [ends, way] : ways_) way->abort();
  }

 private:
  [[nodiscard]] bool is_for_nccl(DeviceKind kind) const {
    return kind == DeviceKind::kCuda || (kind != DeviceKind::kCpu && !use_.library.empty());
  }

  /// Within its own memory, a rank only copies.
  [[nodiscard]] bool is_for_nccl(const Place& place, int peer) const {
    return use_.messages && place.device && peer != rank() &&
           is_for_nccl(place.device->device().kind());
  }

  std::shared_ptr<Way> way(int peer, bool sends) {
    std::shared_ptr<Way>& way = ways_[{peer, sends}];
    if (!way) way = std::make_shared<Way>(inner_, control_, peer, sends, use_, polling_);
    return way;
  }

  std::shared_ptr<Transport> inner_;
  std::shared_ptr<Transport> control_;
  Use use_;
  std::shared_ptr<Polling> polling_;
  std::shared_ptr<NcclGroup> group_;
  std::map<std::pair<int, bool>, std::shared_ptr<Way>> ways_;  // by peer, and whether it is sent to
};

}  // namespace

std::unique_ptr<Transport> with_nccl(std::shared_ptr<Transport> inner,
                                     std::shared_ptr<Transport> control, Use use,
                                     std::shared_ptr<Polling> polling) {
  return std::make_unique<NcclTransport>(std::move(inner), std::move(control), std::move(use),
                                         std::move(polling));
}

}  // namespace ultra::comm::nccl
