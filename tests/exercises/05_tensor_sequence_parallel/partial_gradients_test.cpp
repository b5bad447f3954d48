// Contract of exercise 05.5: sums of whole numbers over groups of any shape, and what is sent.
#include "chapters/05_tensor_sequence_parallel/partial_gradients.hpp"

#include <map>

#include "tests/exercises/05_tensor_sequence_parallel/whole_numbers.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::tensor_parallel {
namespace {

using test::Values;

/// @brief Ranks that lie `stride` apart, in blocks of size * stride.
struct Group {
  std::string name;
  int size = 1;
  int stride = 1;

  [[nodiscard]] int index_of(int rank) const { return rank / stride % size; }
  [[nodiscard]] int first_of(int rank) const { return rank - index_of(rank) * stride; }
};
using Groups = std::vector<Group>;

/// @brief A parameter, and the groups that hold it.
struct Held {
  std::string name;
  Groups in_parts;        ///< groups whose ranks have a part of the gradient each
  Groups whole;           ///< groups whose ranks all have the same
  std::size_t count = 1;  ///< elements of each rank's piece, one less than of the parameter
};

struct Case {
  int ranks = 1;
  Groups groups;
  std::vector<Held> held;
  DType dtype = DType::kF32;
  std::uint64_t seed = 0;
  bool late = false;  ///< whether the ranks behind the first come late

  /// A rank's gradient of parameter p after sums over some groups, one after the other.
  [[nodiscard]] Values after(std::size_t p, int rank, std::span<const Group> sums) const {
    if (sums.empty()) {
      for (const Group& group : held[p].whole) rank = group.first_of(rank);
      return test::whole_numbers(seed, rank, p, held[p].count);
    }
    const Group& last = sums.back();
    return test::sum_over_ranks(last.size, [&](int index) {
      return after(p, last.first_of(rank) + index * last.stride, sums.first(sums.size() - 1));
    });
  }
};

/// @brief What to say about a wrong gradient of parameter p on a rank.
const char* diagnosis(const Case& c, std::size_t p, int rank, const Tensor& found) {
  const Groups& in_parts = c.held[p].in_parts;
  if (in_parts.empty()) {
    return "every copy has the whole gradient here (CopyGradients::kEqual, as norm weights have "
           "without sequence parallelism), or there is one copy: there is nothing to add up.";
  }
  const auto is_after = [&](const Groups& sums, double factor = 1) {
    Values values = c.after(p, rank, sums);
    for (double& value : values) value *= factor;
    return ultra::test::all_near(found, values, 1e-3);
  };
  if (is_after({})) {
    return c.late ? "the sums were read while they were under way: wait for the all-reduce."
                  : "this is this rank's part only. Norm weights are on all ranks of tp, each of "
                    "which has its own tokens' gradient; key/value heads, on some. Add up there.";
  }
  if (is_after(c.groups) || is_after({{.name = "all", .size = c.ranks}})) {
    return "this was added up over others, too. Only the ranks of the group that the parameter "
           "names add up; compare Replication::group with the names in RankGroups, not sizes.";
  }
  if (std::ranges::any_of(in_parts, [&](const Group& group) { return is_after({group}); })) {
    return "a parameter may be in parts in several groups at once: add it up over each.";
  }
  for (int factor = 2; factor <= c.ranks; ++factor) {
    if (is_after(in_parts, factor)) return "this was added up twice: once in each group is enough.";
    if (is_after(in_parts, 1.0 / factor)) {
      return "this is the average: the parts add up to the whole gradient.";
    }
  }
  return "each sum goes back to where its gradient stands: mind the order in the array.";
}

struct Holder {
  train::RankGroups groups;
  std::vector<std::unique_ptr<nn::Parameter>> parameters;
  std::vector<train::GradientPiece> pieces;

  Holder(const Case& c, const Communicator& world) {
    const Device cpu = Device::cpu();
    const int rank = world.rank();
    for (const Group& group : c.groups) {
      const auto first_of = [&](int member) { return group.first_of(member); };
      groups.add(group.name, world.split(first_of, group.name));
    }
    for (std::size_t p = 0; p < c.held.size(); ++p) {
      const auto& [name, in_parts, whole, count] = c.held[p];
      const Shape all = name.starts_with("norm") ? Shape{count + 1} : Shape{count + 1, 1};
      parameters.push_back(test::make_parameter(cpu, name, Tensor::zeros(cpu, all, c.dtype)));
      const auto replicate = [&](const Groups& of, nn::CopyGradients gradients) {
        for (const Group& group : of) {
          parameters[p]->replicate({group.name, group.size, group.index_of(rank), gradients});
        }
      };
      replicate(in_parts, nn::CopyGradients::kPartial);
      replicate(whole, nn::CopyGradients::kEqual);
      const Shape shape = count % 2 == 0 ? Shape{count} : Shape{count, 1};
      pieces.push_back({.parameter = parameters[p].get(),
                        .grad = test::tensor_of(cpu, shape, c.after(p, rank, {}), c.dtype)});
    }
  }
};

class PartialGradients : public ultra::test::RandomTest {
 protected:
  /// The sums where they belong, at the cost of one all-reduce per group.
  void expect_completed(Case c) {
    random.shuffle(c.groups);
    random.shuffle(c.held);
    for (Held& held : c.held) held.count = random.between(1, 17);
    c.dtype = random.pick({DType::kF32, DType::kF64});
    c.seed = seed;
    const auto rank = [&](Communicator& world) {
      const Holder holder(c, world);
      if (c.late) ultra::test::come_late(world);
      const CommStats before = world.stats();
      sum_partial_gradients(holder.pieces, holder.groups);
      const CommStats after = world.stats();
      std::map<std::string, std::size_t> in_parts;  // elements by group
      for (std::size_t p = 0; p < c.held.size(); ++p) {
        const Held& held = c.held[p];
        const Tensor& found = holder.pieces[p].grad;
        EXPECT_TRUE(ultra::test::all_equal(found, c.after(p, world.rank(), held.in_parts)))
            << held.name << " on rank " << world.rank()
            << "\nHint: " << diagnosis(c, p, world.rank(), found);
        for (const Group& group : held.in_parts) {
          if (group.size > 1) in_parts[group.name] += found.numel();
        }
      }
      for (const auto& [name, count] : in_parts) {
        holder.groups.at(name).all_reduce(Tensor::zeros(Device::cpu(), {count}, c.dtype)).wait();
      }
      const CommStats right = world.stats();
      EXPECT_EQ(after[OpKind::kAllReduce].operations - before[OpKind::kAllReduce].operations,
                in_parts.size())
          << "all-reduces\nHint: one for each group that has such gradients, of all in one array.";
      EXPECT_EQ(after.sent_bytes() - before.sent_bytes(), right.sent_bytes() - after.sent_bytes())
          << "bytes sent\nHint: 2 (P-1)/P of what a group of P ranks has in parts, and no more.";
    };
    ultra::test::on_ranks(c.ranks, std::string(to_string(c.dtype)), rank);
  }
  /// The same of a model on tp ranks, of which kv_copies hold the same key/value heads.
  void expect_model_completed(int ranks, int kv_copies, bool late = false) {
    const Group tp{.name = "tp", .size = ranks};
    const Group heads{.name = "heads", .size = kv_copies};
    expect_completed({.ranks = ranks,
                      .groups = {tp, heads},
                      .held = {{"norm behind whole sequences", {}, {tp}},
                               {"norm of own tokens", {tp}, {}},
                               {"norm of own heads", {tp}, {}},
                               {"queries", {}, {}},
                               {"keys and values", {heads}, {}}},
                      .late = late});
  }
};

TEST_F(PartialGradients, PartsAreAddedUpOverTheRanksThatHoldTheSame) {
  for (const int tp : {1, 2, 3, 4, 6, 8}) {
    for (int copies = 1; copies <= tp; ++copies) {
      if (tp % copies == 0 && !HasFailure()) expect_model_completed(tp, copies);
    }
  }
}

TEST_F(PartialGradients, GroupsOfEqualSizeAreKeptApart) {
  for (const int size : {2, 3}) {  // rows and columns of a square of ranks
    const Group row{.name = "row", .size = size};
    const Group column{.name = "column", .size = size, .stride = size};
    expect_completed({.ranks = size * size,
                      .groups = {row, column},
                      .held = {{"in parts in rows", {row}, {}},
                               {"in parts in columns", {column}, {}},
                               {"whole in rows", {}, {row}},
                               {"in parts in rows, whole in columns", {row}, {column}},
                               {"in parts in columns, whole in rows", {column}, {row}},
                               {"in parts in both", {row, column}, {}},
                               {"whole in both", {}, {row, column}}}});
  }
}

TEST_F(PartialGradients, TheSumsAreHereWhenTheLastRankHasCome) {
  expect_model_completed(4, 2, true);
}

}  // namespace
}  // namespace ultra::tensor_parallel
