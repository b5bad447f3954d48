#include "tests/support/contracts/rank_trial.hpp"

#include <fmt/format.h>

#include <chrono>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/errors.hpp"
#include "common/comm/run_ranks.hpp"

namespace ultra::test {
namespace {

using comm::Chunks;
using comm::Group;
using comm::Schedule;

class OnlyOne : public comm::CollectiveAlgorithms {
 public:
  OnlyOne(OpKind op, MakeRankSchedule make) : op_(op), make_(std::move(make)) {}

  Schedule broadcast(const Group& group, std::size_t count, int root) const override {
    return ask(OpKind::kBroadcast, group, count, root);
  }
  Schedule reduce(const Group& group, std::size_t count, int root) const override {
    return ask(OpKind::kReduce, group, count, root);
  }
  Schedule all_reduce(const Group& group, std::size_t count, std::size_t /*bytes*/) const override {
    return ask(OpKind::kAllReduce, group, count, 0);
  }
  Schedule gather(const Group& group, const Chunks& chunks, int root) const override {
    return ask(OpKind::kGather, group, chunks.whole().end, root);
  }
  Schedule scatter(const Group& group, const Chunks& chunks, int root) const override {
    return ask(OpKind::kScatter, group, chunks.whole().end, root);
  }
  Schedule all_gather(const Group& group, const Chunks& chunks) const override {
    return ask(OpKind::kAllGather, group, chunks.whole().end, 0);
  }
  Schedule reduce_scatter(const Group& group, const Chunks& chunks) const override {
    return ask(OpKind::kReduceScatter, group, chunks.whole().end, 0);
  }
  Schedule all_to_all(const Group& group, const Chunks& /*sent*/,
                      const Chunks& /*received*/) const override {
    return ask(OpKind::kAllToAll, group, 0, 0);
  }
  Schedule barrier(const Group& group) const override { return ask(OpKind::kBarrier, group, 0, 0); }

 private:
  Schedule ask(OpKind op, const Group& group, std::size_t count, int root) const {
    ensure(op == op_, "this test injects another operation");
    return make_(group, count, root);
  }

  OpKind op_;
  MakeRankSchedule make_;
};

/// A number that names its owner and its place there; small enough for exact sums.
double owned(int owner, std::size_t element) {
  return 1e6 * (owner + 1) + static_cast<double>(element);
}

/// One rank's part: runs the operation and says what is wrong with its result.
class Part {
 public:
  Part(Communicator& world, std::size_t count, int root)
      : world_(world),
        count_(count),
        root_(root),
        chunks_(Chunks::even({0, count}, world.size())),
        own_(chunks_[world.rank()]) {}

  std::string run(OpKind op) {
    switch (op) {
      case OpKind::kBroadcast: {
        const Tensor data = all_mine();
        world_.broadcast(data, root_).wait();
        return compare(data, [&](std::size_t i) { return owned(root_, i); });
      }
      case OpKind::kReduce: {
        const Tensor data = all_mine();
        world_.reduce(data, root_).wait();
        return compare(data, [&](std::size_t i) { return is_root() ? sum(i) : mine(i); });
      }
      case OpKind::kAllReduce: {
        const Tensor data = all_mine();
        world_.all_reduce(data).wait();
        return compare(data, [&](std::size_t i) { return sum(i); });
      }
      case OpKind::kGather: {
        const Tensor output = empty(all_parts());
        world_.gather(all_mine(), output, root_).wait();
        return is_root() ? compare(output, [&](std::size_t i) { return in_parts(i); }) : "";
      }
      case OpKind::kScatter: {
        const Tensor output = empty(count_);
        world_.scatter(tensor(all_parts(), [&](std::size_t i) { return mine(i); }), output, root_)
            .wait();
        return compare(output, [&](std::size_t i) { return owned(root_, own_part() + i); });
      }
      case OpKind::kAllGather: {
        const Tensor output = empty(count_);
        world_.all_gather(my_chunk(), output).wait();
        return compare(output, [&](std::size_t i) { return gathered(i); });
      }
      case OpKind::kReduceScatter: {
        const Tensor output = empty(own_.size());
        world_.reduce_scatter(all_mine(), output).wait();
        return compare(output, [&](std::size_t i) { return sum(own_.begin + i); });
      }
      case OpKind::kAllToAll:
        return exchange();
      default:
        world_.barrier().wait();
        return "";
    }
  }

 private:
  std::string exchange() {
    const Tensor output = empty(all_parts());
    world_.all_to_all(tensor(all_parts(), [&](std::size_t i) { return mine(i); }), output).wait();
    return compare(output, [&](std::size_t i) { return in_parts(i, own_part()); });
  }

  // Where the ranks' parts are equal they have count_ elements each.
  std::size_t all_parts() const { return count_ * static_cast<std::size_t>(world_.size()); }
  std::size_t own_part() const { return count_ * static_cast<std::size_t>(world_.rank()); }
  /// Element i of parts of all ranks, each from place `begin` on.
  double in_parts(std::size_t i, std::size_t begin = 0) const {
    return owned(static_cast<int>(i / count_), begin + i % count_);
  }

  bool is_root() const { return world_.rank() == root_; }
  double mine(std::size_t i) const { return owned(world_.rank(), i); }
  double sum(std::size_t i) const {
    const double p = world_.size();
    return 1e6 * p * (p + 1) / 2 + static_cast<double>(i) * p;
  }
  double gathered(std::size_t i) const {
    int owner = 0;
    while (i >= chunks_[owner].end) ++owner;
    return owned(owner, i);
  }

  Tensor empty(std::size_t count) const { return Tensor::empty(device_, {count}, DType::kF64); }
  template <class Value>
  Tensor tensor(std::size_t count, const Value& value) const {
    const Tensor result = empty(count);
    for (std::size_t i = 0; i < count; ++i) result.span<double>()[i] = value(i);
    return result;
  }
  Tensor all_mine() const {
    return tensor(count_, [&](std::size_t i) { return mine(i); });
  }
  Tensor my_chunk() const {
    return tensor(own_.size(), [&](std::size_t i) { return mine(own_.begin + i); });
  }

  template <class Value>
  std::string compare(const Tensor& found, const Value& expected) const {
    const std::span<double> values = found.span<double>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] != expected(i)) {
        return fmt::format("rank {} of {}: element {} of the result is {}, expected {}",
                           world_.rank(), world_.size(), i, values[i], expected(i));
      }
    }
    return "";
  }

  Communicator& world_;
  Device device_ = Device::cpu();
  std::size_t count_;
  int root_;
  Chunks chunks_;
  Range own_;
};

}  // namespace

std::shared_ptr<const comm::CollectiveAlgorithms> only(OpKind op, MakeRankSchedule make) {
  return std::make_shared<OnlyOne>(op, std::move(make));
}

::testing::AssertionResult holds_on_ranks(
    OpKind op, std::shared_ptr<const comm::CollectiveAlgorithms> algorithms, int size,
    std::size_t count, int root) {
  std::vector<std::string> faults(static_cast<std::size_t>(size));
  RankOptions options;
  options.timeout = std::chrono::seconds(20);
  options.algorithms = std::move(algorithms);
  try {
    run_ranks(
        size,
        [&](Communicator& world) {
          faults[static_cast<std::size_t>(world.rank())] = Part(world, count, root).run(op);
        },
        options);
  } catch (const NotWritten&) {
    throw;
  } catch (const Error& error) {
    return ::testing::AssertionFailure() << error.what();
  }
  for (const std::string& fault : faults) {
    if (!fault.empty()) return ::testing::AssertionFailure() << fault;
  }
  return ::testing::AssertionSuccess();
}

}  // namespace ultra::test
