#include "tests/support/ranks/star_algorithms.hpp"

namespace ultra::test {

using comm::Block;
using comm::Chunks;
using comm::Group;
using comm::Lane;
using comm::OnReceive;
using comm::Round;
using comm::Schedule;

namespace {

Round send(int peer, Range range) {
  Round step;
  step.send_to = peer;
  step.send = {.range = range};
  return step;
}

Round receive(int peer, Range range, OnReceive how = OnReceive::kStore) {
  Round step;
  step.receive_from = peer;
  step.receive = {.range = range};
  step.on_receive = how;
  return step;
}

/// The root receives `range_of(i)` from each other member i, which sends it.
template <class RangeOf>
Lane to_root(const Group& group, int root, OnReceive how, RangeOf range_of) {
  if (group.rank != root) return {send(group.at(root), range_of(group.rank))};
  Lane lane;
  for (int i = 0; i < group.size(); ++i) {
    if (i != root) lane.push_back(receive(group.at(i), range_of(i), how));
  }
  return lane;
}

template <class RangeOf>
Lane from_root(const Group& group, int root, RangeOf range_of) {
  if (group.rank != root) return {receive(group.at(root), range_of(group.rank))};
  Lane lane;
  for (int i = 0; i < group.size(); ++i) {
    if (i != root) lane.push_back(send(group.at(i), range_of(i)));
  }
  return lane;
}

Schedule one_after_the_other(Lane first, const Lane& second) {
  append(first, second);
  return {.lanes = {std::move(first)}};
}

}  // namespace

Schedule StarAlgorithms::broadcast(const Group& group, std::size_t count, int root) const {
  return {.lanes = {from_root(group, root, [&](int) { return Range{0, count}; })}};
}

Schedule StarAlgorithms::reduce(const Group& group, std::size_t count, int root) const {
  return {.lanes = {to_root(group, root, OnReceive::kReduce, [&](int) {
            return Range{0, count};
          })}};
}

Schedule StarAlgorithms::all_reduce(const Group& group, std::size_t count, std::size_t) const {
  const auto all = [&](int) { return Range{0, count}; };
  return one_after_the_other(to_root(group, 0, OnReceive::kReduce, all), from_root(group, 0, all));
}

Schedule StarAlgorithms::gather(const Group& group, const Chunks& chunks, int root) const {
  return {.lanes = {to_root(group, root, OnReceive::kStore, [&](int i) { return chunks[i]; })}};
}

Schedule StarAlgorithms::scatter(const Group& group, const Chunks& chunks, int root) const {
  return {.lanes = {from_root(group, root, [&](int i) { return chunks[i]; })}};
}

Schedule StarAlgorithms::all_gather(const Group& group, const Chunks& chunks) const {
  return one_after_the_other(to_root(group, 0, OnReceive::kStore, [&](int i) { return chunks[i]; }),
                             from_root(group, 0, [&](int) { return chunks.whole(); }));
}

Schedule StarAlgorithms::reduce_scatter(const Group& group, const Chunks& chunks) const {
  return one_after_the_other(
      to_root(group, 0, OnReceive::kReduce, [&](int) { return chunks.whole(); }),
      from_root(group, 0, [&](int i) { return chunks[i]; }));
}

Schedule StarAlgorithms::all_to_all(const Group& group, const Chunks& sent,
                                    const Chunks& received) const {
  Lane lane;
  for (int i = 0; i < group.size(); ++i) {
    const int to = (group.rank + i) % group.size();
    const int from = (group.rank + group.size() - i) % group.size();
    lane.push_back({.send_to = group.at(to),
                    .send = {sent[to], comm::Buffer::kInput},
                    .receive_from = group.at(from),
                    .receive = {received[from]}});
  }
  return {.lanes = {std::move(lane)}};
}

Schedule StarAlgorithms::barrier(const Group& group) const {
  const auto none = [](int) { return Range{0, 0}; };
  return one_after_the_other(to_root(group, 0, OnReceive::kStore, none), from_root(group, 0, none));
}

}  // namespace ultra::test
