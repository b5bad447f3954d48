#include "common/comm/engine/roll_call.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <type_traits>
#include <utility>

#include "common/base/errors.hpp"
#include "common/base/text.hpp"
#include "common/comm/comm_error.hpp"

namespace ultra::comm {
namespace {

static_assert(sizeof(Answer) == 56 && std::is_trivially_copyable_v<Answer>);

/// Half as many bits as the hash, made of all of them.
std::uint32_t hash_of(std::string_view label) {
  const std::uint64_t hash = stable_hash(label);
  return static_cast<std::uint32_t>(hash ^ (hash >> 32));
}

/// As much of a label as travels.
std::array<char, Answer::kLabelBytes> shortened(std::string_view label) {
  constexpr std::string_view kMore = "...";
  std::array<char, Answer::kLabelBytes> text{};
  const bool fits = label.size() <= text.size();
  const auto kept = label.substr(0, fits ? text.size() : text.size() - kMore.size());
  const auto end = std::ranges::copy(kept, text.begin()).out;
  if (!fits) std::ranges::copy(kMore, end);
  return text;
}

std::string label_text(const Answer& answer) {
  return {answer.label.begin(), std::ranges::find(answer.label, '\0')};
}

std::string text(const Answer& answer) {
  return call_text({.kind = answer.kind,
                    .communicator = {},
                    .communicator_id = 0,
                    .sequence = 0,
                    .count = answer.count,
                    .dtype = static_cast<DType>(answer.dtype),
                    .device = static_cast<DeviceKind>(answer.device),
                    .op = answer.op,
                    .root = answer.root,
                    .label = label_text(answer)});
}

const char* has_or_have(const std::vector<int>& ranks) {
  return ranks.size() == 1 ? "has" : "have";
}

}  // namespace

Answer Answer::of(const OperationInfo& info) {
  return {.count = info.count,
          .root = info.root,
          .label_hash = hash_of(info.label),
          .kind = info.kind,
          .op = info.op,
          .dtype = static_cast<std::uint8_t>(info.dtype),
          .device = static_cast<std::uint8_t>(info.device),
          .sequence = info.sequence,
          .label = shortened(info.label)};
}

bool Answer::same_call(const Answer& other) const {
  return kind == other.kind && count == other.count && dtype == other.dtype &&
         device == other.device && op == other.op && root == other.root &&
         label_hash == other.label_hash && sequence == other.sequence;
}

void expect_same_call(const std::vector<Answer>& answers, const OperationInfo& info) {
  const auto differs = [&](const Answer& a) { return !a.same_call(answers.front()); };
  if (std::ranges::none_of(answers, differs)) return;
  std::vector<std::pair<Answer, std::vector<int>>> calls;
  for (std::size_t member = 0; member < answers.size(); ++member) {
    const auto same = [&](const auto& call) { return call.first.same_call(answers[member]); };
    auto found = std::ranges::find_if(calls, same);
    if (found == calls.end()) found = calls.insert(found, {answers[member], {}});
    found->second.push_back(static_cast<int>(member));
  }
  std::ranges::stable_sort(calls, {}, [](const auto& call) { return call.second.size(); });
  const bool out_of_step = std::ranges::any_of(
      answers, [&](const Answer& a) { return a.sequence != answers.front().sequence; });
  std::string who;
  for (const auto& [answer, members] : calls) {
    who += fmt::format("{}{} call{} {}{}", who.empty() ? "" : ", ", rank_list(members),
                       members.size() == 1 ? "s" : "", text(answer),
                       out_of_step ? fmt::format(" as number {}", answer.sequence) : "");
  }
  const bool labeled =
      std::ranges::any_of(answers, [](const Answer& a) { return a.label[0] != 0; });
  throw CommMismatch(
      fmt::format("the members of '{}' call different operations as their number {}: {}. All must "
                  "call the same operations in the same order{}{}.",
                  info.communicator, info.sequence, who, out_of_step ? ", splits too" : "",
                  labeled ? ", under the same labels" : ""));
}

RollCall::RollCall(std::shared_ptr<Transport> transport, const OperationInfo& info, Answer own)
    : transport_(std::move(transport)),
      info_(info),
      answers_(
          std::make_shared<std::vector<Answer>>(static_cast<std::size_t>(transport_->size()))) {
  at(transport_->rank()) = own;
}

void RollCall::post() {
  const int rank = transport_->rank();
  const int size = transport_->size();
  const Tag tag{.use = Tag::Use::kRollCall, .lane = 0, .sequence = info_.sequence};
  receives_.resize(answers_->size());
  sends_.resize(answers_->size());
  for (int i = 1; i < size; ++i) {
    const int peer = (rank + i) % size;
    Answer& answer = at(peer);
    receives_[static_cast<std::size_t>(peer)] =
        transport_->irecv({std::as_writable_bytes(std::span(&answer, 1)), {}, answers_}, peer, tag);
  }
  const Answer& own = at(rank);
  for (int i = 1; i < size; ++i) {
    const int peer = (rank + i) % size;
    sends_[static_cast<std::size_t>(peer)] =
        transport_->isend({std::as_bytes(std::span(&own, 1)), answers_}, peer, tag);
  }
  posted_ = true;
}

bool RollCall::complete() {
  if (!posted_) post();
  bool all_here = true;
  for (auto* requests : {&receives_, &sends_}) {
    for (auto& request : *requests) {
      if (request && request->test()) request.reset();
      if (request) all_here = false;
    }
  }
  if (all_here && !agreed_) {
    expect_same_call(*answers_, info_);
    agreed_ = true;
  }
  return all_here;
}

std::string RollCall::waits_for() const {
  std::vector<int> missing;
  for (const auto* requests : {&receives_, &sends_}) {
    for (std::size_t peer = 0; peer < requests->size(); ++peer) {
      if ((*requests)[peer]) missing.push_back(static_cast<int>(peer));
    }
    if (!missing.empty()) break;
  }
  return have(missing, world_ranks(*transport_), "not arrived");
}

std::string rank_list(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

std::string have(const std::vector<int>& ranks, const char* done) {
  return fmt::format("{} {} {}", rank_list(ranks), has_or_have(ranks), done);
}

std::string have(const std::vector<int>& members, const std::vector<int>& worlds,
                 const char* done) {
  std::vector<int> in_the_world;
  for (const int member : members) {
    in_the_world.push_back(worlds[static_cast<std::size_t>(member)]);
  }
  if (in_the_world == members) return have(members, done);
  return fmt::format("{} (in the world: {}) {} {}", rank_list(members),
                     fmt::join(in_the_world, ", "), has_or_have(members), done);
}

std::vector<int> world_ranks(const Transport& group) {
  std::vector<int> ranks;
  for (int member = 0; member < group.size(); ++member) ranks.push_back(group.world_rank(member));
  return ranks;
}

}  // namespace ultra::comm
