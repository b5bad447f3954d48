#include "common/comm/backend/threads/direct_collective.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "common/comm/backend/threads/thread_world.hpp"
#include "common/comm/collectives/native_volume.hpp"
#include "common/comm/comm_error.hpp"
#include "common/comm/engine/tensor_bytes.hpp"

namespace ultra::comm::threads {
namespace {

class DirectCollective : public Operation {
 public:
  DirectCollective(const CollectiveCall& call, std::shared_ptr<DirectBoard> board, int rank,
                   std::uint64_t number)
      : Operation(call.info, Order::kInTurn),
        call_(call),
        part_(device_part_of(call_)),
        board_(std::move(board)),
        rank_(rank),
        number_(number) {}
  DirectCollective(const DirectCollective&) = delete;
  DirectCollective& operator=(const DirectCollective&) = delete;
  ~DirectCollective() override { leave(); }

  bool advance() override {
    if (stage_ == Stage::kNew) arrive();
    if (stage_ == Stage::kArrived) {
      if (!all_have(&Showing::arrived)) return false;
      expect_agreement();
      if (is_staged()) {
        combine_staged();
        stage_ = Stage::kEnded;
        return true;
      }
      if (!work()) return false;
    }
    if (stage_ == Stage::kWorked && all_have(&Showing::done)) {
      stage_ = Stage::kEnded;
      if (part_.exists()) end_on_device();
    }
    return stage_ == Stage::kEnded;
  }

  const DevicePart* device_part() const override { return part_.exists() ? &part_ : nullptr; }

  std::string waits_for() const override {
    const std::vector<int>& worlds = board_->world_ranks();
    if (stage_ == Stage::kWorked) {
      return have(members_without(&Showing::done), worlds, "not finished");
    }
    const std::vector<int> missing = members_without(&Showing::arrived);
    return missing.empty() ? "a member has given up" : have(missing, worlds, "not arrived");
  }

  std::size_t sent_bytes() const override { return native_sent_bytes(call_, rank_, size()); }

 private:
  enum class Stage : std::uint8_t { kNew, kArrived, kWorked, kEnded };

  int size() const { return board_->size(); }
  std::size_t width() const { return size_of(info().dtype); }
  Showing& showing(int member) const { return board_->showing(number_, member); }
  const CollectiveCall& call_of(int member) const { return *showing(member).call; }
  Combine how() const { return {.dtype = info().dtype, .op = info().op}; }

  /// Small enough that one meeting suffices: everybody reads copies.
  bool is_staged() const {
    if (info().kind == OpKind::kBarrier) return true;
    if (info().device != DeviceKind::kCpu) return false;
    return info().kind == OpKind::kAllReduce && info().count * width() <= Showing::kStagedBytes;
  }

  bool has(int member, std::atomic<std::uint64_t> Showing::*counter) const {
    return (showing(member).*counter).load() == number_ + 1;
  }
  bool all_have(std::atomic<std::uint64_t> Showing::*counter) const {
    for (int member = 0; member < size(); ++member) {
      if (!has(member, counter)) return false;
    }
    return true;
  }
  /// Only the last to say so wakes the others: none can go on before. Of two at once, one at least
  /// sees all, as these stores and loads have one order.
  void say(std::atomic<std::uint64_t> Showing::*counter) const {
    (showing(rank_).*counter).store(number_ + 1);
    if (all_have(counter)) board_->ring_others(rank_);
  }
  std::vector<int> members_without(std::atomic<std::uint64_t> Showing::*counter) const {
    std::vector<int> missing;
    for (int member = 0; member < size(); ++member) {
      if (!has(member, counter)) missing.push_back(member);
    }
    return missing;
  }

  void arrive() {
    Showing& own = showing(rank_);
    own.answer = Answer::of(info());
    own.call = &call_;
    own.ready = part_.ready();
    if (is_staged() && info().kind == OpKind::kAllReduce && info().count > 0) {
      std::memcpy(own.staged.data(), memory_of(call_.input).data(), call_.input.nbytes());
    }
    say(&Showing::arrived);
    stage_ = Stage::kArrived;
  }

  void expect_agreement() const {
    const Answer& own = showing(rank_).answer;
    bool agreed = true;
    for (int member = 0; member < size(); ++member) {
      agreed = agreed && showing(member).answer.same_call(own);
    }
    if (agreed) [[likely]]
      return;
    std::vector<Answer> answers;
    for (int member = 0; member < size(); ++member) answers.push_back(showing(member).answer);
    expect_same_call(answers, info());
  }

  void combine_staged() const {
    if (info().count == 0) return;
    std::vector<const void*> sources;
    for (int member = 0; member < size(); ++member) {
      sources.push_back(showing(member).staged.data());
    }
    void* const target = memory_of(call_.output).data();
    combine_all(how(), std::span(&target, 1), sources, info().count);
  }

  /// Does this rank's part; false when a member has left, whose memory may be gone.
  bool work() {
    Showing& own = showing(rank_);
    own.working.store(number_ + 1);
    // Sequentially consistent with leave(): either the leaver sees us working, or we see it gone.
    for (int member = 0; member < size(); ++member) {
      if (!has(member, &Showing::left)) continue;
      own.working.store(0);
      return false;
    }
    try {
      begin_on_device();
      do_part();
      if (part_.exists()) own.finished = part_.device()->record();
    } catch (...) {
      own.working.store(0);
      throw;
    }
    own.working.store(0);
    say(&Showing::done);
    stage_ = Stage::kWorked;
    return true;
  }

  /// Everybody touches everybody's tensors: in stream order, for no host waits for a device.
  void begin_on_device() const {
    if (!part_.exists()) return;
    for (int member = 0; member < size(); ++member) part_.device()->after(showing(member).ready);
  }
  void end_on_device() {
    for (int member = 0; member < size(); ++member) part_.device()->after(showing(member).finished);
    part_.ends_at(part_.device()->record());
  }

  void leave() {
    if (stage_ != Stage::kArrived && stage_ != Stage::kWorked) return;
    // The place may already say that this rank gave up a later operation: that must stay.
    std::atomic<std::uint64_t>& left = showing(rank_).left;
    left.store(std::max(left.load(), number_ + 1));
    for (int member = 0; member < size(); ++member) {
      if (member == rank_) continue;
      while (has(member, &Showing::working)) std::this_thread::yield();
    }
  }

  std::byte* at(const Tensor& tensor, std::size_t element) const {
    return memory_of(tensor).data() + element * width();
  }

  void copy(int giver, const Tensor& from, Range source, int taker, const Tensor& to,
            Range target) const {
    if (source.size() != target.size()) {
      throw CommMismatch(fmt::format("rank {} gives {} elements where rank {} expects {}", giver,
                                     source.size(), taker, target.size()));
    }
    if (source.size() == 0) return;
    part_.memory().copy(at(to, target.begin), at(from, source.begin), source.size() * width());
  }

  /// Combines one range of all members' inputs, in the order of the ranks, into each of `targets`.
  void combine_range(Range range, std::span<void* const> targets) const {
    if (range.size() == 0) return;
    std::vector<const void*> sources;
    for (int member = 0; member < size(); ++member) {
      sources.push_back(at(call_of(member).input, range.begin));
    }
    part_.memory().combine_all(how(), targets, sources, range.size());
  }

  Range own_share() const { return Chunks::even({0, info().count}, size())[rank_]; }

  void do_part() const {
    const int root = info().root;
    switch (info().kind) {
      case OpKind::kBroadcast:
        return copy(root, call_of(root).input, {0, info().count}, rank_, call_.output,
                    {0, info().count});
      case OpKind::kReduce:
        return reduce_into({root}, own_share());
      case OpKind::kAllReduce:
        return reduce_into(Group::all(rank_, size()).ranks, own_share());
      case OpKind::kGather:
        return copy(rank_, call_.input, {0, call_.input.numel()}, root, call_of(root).output,
                    call_of(root).received[rank_]);
      case OpKind::kScatter:
        return copy(root, call_of(root).input, call_of(root).sent[rank_], rank_, call_.output,
                    {0, call_.output.numel()});
      case OpKind::kAllGather:
        return for_each_member([&](int member) {
          const Tensor& theirs = call_of(member).input;
          copy(member, theirs, {0, theirs.numel()}, rank_, call_.output, call_.received[member]);
        });
      case OpKind::kReduceScatter: {
        void* const target = at(call_.output, 0);
        return combine_range(call_.sent[rank_], std::span(&target, 1));
      }
      case OpKind::kAllToAll:
        return for_each_member([&](int member) {
          const CollectiveCall& theirs = call_of(member);
          copy(member, theirs.input, theirs.sent[rank_], rank_, call_.output,
               call_.received[member]);
        });
      default:
        return;
    }
  }

  void reduce_into(const std::vector<int>& members, Range range) const {
    std::vector<void*> targets;
    for (const int member : members) targets.push_back(at(call_of(member).output, range.begin));
    combine_range(range, targets);
  }

  /// From the next rank on, so that not all read the same member at once.
  template <class Fn>
  void for_each_member(Fn&& fn) const {
    for (int i = 1; i <= size(); ++i) fn((rank_ + i) % size());
  }

  CollectiveCall call_;
  DevicePart part_;
  std::shared_ptr<DirectBoard> board_;
  int rank_;
  std::uint64_t number_;
  Stage stage_ = Stage::kNew;
};

}  // namespace

std::shared_ptr<Operation> make_direct(const CollectiveCall& call,
                                       std::shared_ptr<DirectBoard> board, int rank,
                                       std::uint64_t number) {
  return std::make_shared<DirectCollective>(call, std::move(board), rank, number);
}

}  // namespace ultra::comm::threads
