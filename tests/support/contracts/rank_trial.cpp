#include "tests/support/contracts/rank_trial.hpp"

#include "common/comm/run_ranks.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::test {
namespace {

/// Numbers that name their owner and their place there; small enough for exact sums.
Tensor numbers_of(int owner, Range places) {
  const Tensor numbers = Tensor::empty(Device::cpu(), {places.size()}, DType::kF64);
  for (std::size_t i = 0; i < places.size(); ++i) {
    numbers.span<double>()[i] = 1e6 * (owner + 1) + static_cast<double>(places.begin + i);
  }
  return numbers;
}

/// What one rank has after an operation on such numbers.
std::vector<double> result_of(OpKind op, const Communicator& world, std::size_t count, int root) {
  const Range own = comm::Chunks::even({0, count}, world.size())[world.rank()];
  const std::size_t parts = count * static_cast<std::size_t>(world.size());
  const Tensor mine = numbers_of(world.rank(), {0, count});
  const Tensor of_parts = numbers_of(world.rank(), {0, parts});
  const auto empty = [](std::size_t n) { return Tensor::zeros(Device::cpu(), {n}, DType::kF64); };
  Tensor output = mine;
  switch (op) {
    case OpKind::kBroadcast:
      world.broadcast(mine, root).wait();
      break;
    case OpKind::kReduce:
      world.reduce(mine, root).wait();
      break;
    case OpKind::kAllReduce:
      world.all_reduce(mine).wait();
      break;
    case OpKind::kGather:
      output = empty(parts);
      world.gather(mine, output, root).wait();
      break;
    case OpKind::kScatter:
      output = empty(count);
      world.scatter(of_parts, output, root).wait();
      break;
    case OpKind::kAllGather:
      output = empty(count);
      world.all_gather(numbers_of(world.rank(), own), output).wait();
      break;
    case OpKind::kReduceScatter:
      output = empty(own.size());
      world.reduce_scatter(mine, output).wait();
      break;
    case OpKind::kAllToAll:
      output = empty(parts);
      world.all_to_all(of_parts, output).wait();
      break;
    default:
      world.barrier().wait();
  }
  return output.to_vector();
}

/// By rank.
std::vector<std::vector<double>> results_of(OpKind op, const RankOptions& options, int size,
                                            std::size_t count, int root) {
  std::vector<std::vector<double>> results(static_cast<std::size_t>(size));
  run_ranks(
      size,
      [&](Communicator& world) {
        results[static_cast<std::size_t>(world.rank())] = result_of(op, world, count, root);
      },
      options);
  return results;
}

}  // namespace

::testing::AssertionResult holds_on_ranks(
    OpKind op, std::shared_ptr<const comm::CollectiveAlgorithms> algorithms, int size,
    std::size_t count, int root) {
  RankOptions options;
  options.timeout = std::chrono::seconds(20);
  options.algorithms = std::move(algorithms);
  std::vector<std::vector<double>> found;
  try {
    found = results_of(op, options, size, count, root);
  } catch (const NotWritten&) {
    throw;
  } catch (const Error& error) {
    return ::testing::AssertionFailure() << error.what();
  }
  const auto expected = results_of(op, {}, size, count, root);
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    if (found[rank] == expected[rank]) continue;
    return ::testing::AssertionFailure() << fmt::format(
               "rank {} of {}: found {}, expected {}", rank, size,
               ::testing::PrintToString(found[rank]), ::testing::PrintToString(expected[rank]));
  }
  return ::testing::AssertionSuccess();
}

}  // namespace ultra::test
