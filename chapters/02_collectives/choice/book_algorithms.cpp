#include "chapters/02_collectives/choice/book_algorithms.hpp"

#include <fmt/format.h>

#include <bit>
#include <utility>

#include "common/base/errors.hpp"

namespace ultra::collectives {
namespace {

using comm::Chunks;
using comm::Group;
using comm::Schedule;

CollectiveRequest request_for(const Group& group, Chunks chunks, int root = 0) {
  return {.group = group, .chunks = chunks, .received = std::move(chunks), .root = root};
}

CollectiveRequest request_for(const Group& group, std::size_t count, int root = 0) {
  return request_for(group, Chunks::even({0, count}, group.size()), root);
}

bool spans_full_nodes(const CollectiveRequest& request) {
  const int per_node = request.tuning.ranks_per_node;
  const int size = request.group.size();
  return per_node > 1 && size > per_node && size % per_node == 0;
}

std::string_view name_by_size(OpKind op, const CollectiveRequest& request) {
  const bool small = request.bytes() <= request.tuning.small_bytes;
  const bool power_of_two = std::has_single_bit(static_cast<unsigned>(request.group.size()));
  switch (op) {
    case OpKind::kBroadcast:
      return small ? "binomial" : "scatter-all-gather";
    case OpKind::kReduce:
      return small ? "binomial" : "reduce-scatter-gather";
    case OpKind::kAllReduce:
      if (small) return "recursive-doubling";
      return spans_full_nodes(request) ? "two-level" : "ring";
    case OpKind::kAllGather:
      return small && power_of_two ? "recursive-doubling" : "ring";
    case OpKind::kReduceScatter:
      return small && power_of_two ? "recursive-halving" : "ring";
    case OpKind::kAllToAll:
      return "pairwise";
    case OpKind::kBarrier:
      return "dissemination";
    default:
      return "binomial";
  }
}

}  // namespace

BookAlgorithms::BookAlgorithms(BookOptions options) : options_(std::move(options)) {
  for (const auto& [op, name] : options_.names) static_cast<void>(find_algorithm(op, name));
  if (options_.tuning.ranks_per_node < 1 || options_.tuning.segments < 0) {
    throw ConfigError(fmt::format(
        "collectives: {} ranks per node (at least 1) and {} segments (at least 1; 0: by size)",
        options_.tuning.ranks_per_node, options_.tuning.segments));
  }
}

const NamedAlgorithm& BookAlgorithms::choose(OpKind op, const CollectiveRequest& request) const {
  const auto named = options_.names.find(op);
  if (named == options_.names.end()) return find_algorithm(op, name_by_size(op, request));
  const NamedAlgorithm& algorithm = find_algorithm(op, named->second);
  if (const std::string reason = algorithm.why_not(request); !reason.empty()) {
    throw ConfigError(fmt::format("{} by '{}' cannot work here: {}. '{}' takes any group.",
                                  to_string(op), algorithm.name, reason,
                                  algorithms(op).front().name));
  }
  return algorithm;
}

Schedule BookAlgorithms::schedule(OpKind op, CollectiveRequest request) const {
  ensure(request.chunks.size() == request.group.size(), "one chunk per member of the group");
  ensure(request.received.size() == request.group.size(), "one chunk from each member");
  ensure(request.root >= 0 && request.root < request.group.size(), "the root is a member");
  request.tuning = options_.tuning;
  return choose(op, request).schedule(request);
}

Schedule BookAlgorithms::broadcast(const Group& group, std::size_t count, int root) const {
  return schedule(OpKind::kBroadcast, request_for(group, count, root));
}

Schedule BookAlgorithms::reduce(const Group& group, std::size_t count, int root) const {
  return schedule(OpKind::kReduce, request_for(group, count, root));
}

Schedule BookAlgorithms::all_reduce(const Group& group, std::size_t count,
                                    std::size_t element_bytes) const {
  CollectiveRequest request = request_for(group, count);
  request.element_bytes = element_bytes;
  return schedule(OpKind::kAllReduce, std::move(request));
}

Schedule BookAlgorithms::gather(const Group& group, const Chunks& chunks, int root) const {
  return schedule(OpKind::kGather, request_for(group, chunks, root));
}

Schedule BookAlgorithms::scatter(const Group& group, const Chunks& chunks, int root) const {
  return schedule(OpKind::kScatter, request_for(group, chunks, root));
}

Schedule BookAlgorithms::all_gather(const Group& group, const Chunks& chunks) const {
  return schedule(OpKind::kAllGather, request_for(group, chunks));
}

Schedule BookAlgorithms::reduce_scatter(const Group& group, const Chunks& chunks) const {
  return schedule(OpKind::kReduceScatter, request_for(group, chunks));
}

Schedule BookAlgorithms::all_to_all(const Group& group, const Chunks& sent,
                                    const Chunks& received) const {
  CollectiveRequest request = request_for(group, sent);
  request.received = received;
  return schedule(OpKind::kAllToAll, std::move(request));
}

Schedule BookAlgorithms::barrier(const Group& group) const {
  return schedule(OpKind::kBarrier, request_for(group, std::size_t{0}));
}

}  // namespace ultra::collectives
