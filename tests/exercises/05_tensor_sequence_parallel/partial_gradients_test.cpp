// Contract of exercise 05.5: sums of whole numbers over groups of any shape, and what is sent.
#include "chapters/05_tensor_sequence_parallel/partial_gradients.hpp"

#include <fmt/ranges.h>

#include <iterator>

#include "common/nn/parameter.hpp"
#include "common/train/rank_groups.hpp"
#include "common/train/step.hpp"
#include "tests/exercises/05_tensor_sequence_parallel/whole_numbers.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::tensor_parallel {
namespace {

using nn::CopyGradients;
using test::as_size;
using test::tensor_of;
using test::Values;
using test::whole_numbers;

using Names = std::vector<std::string>;

constexpr double kSomebodyElses = 77;  ///< stands in front of each piece, and behind it

/// @brief Ranks that lie `stride` apart, in blocks of size * stride.
struct Group {
  std::string name;
  int size = 1;
  int stride = 1;

  [[nodiscard]] int index_of(int rank) const { return rank / stride % size; }
  [[nodiscard]] int first_of(int rank) const { return rank - index_of(rank) * stride; }
};

/// @brief A parameter, and the groups that hold it.
struct Held {
  std::string name;
  Names in_parts;  ///< groups whose ranks have a part of the gradient each
  Names whole;     ///< groups whose ranks all have the same

  [[nodiscard]] bool is_norm() const { return name.starts_with("norm"); }
};

/// @brief What ranks hold. The ranks of a replica are neighbours; each replica has other pieces of
/// the parameters, and of some none.
struct Case {
  int ranks = 1;
  int replicas = 1;
  std::vector<Group> groups;
  std::vector<Held> held;
  DType dtype = DType::kF32;
  std::uint64_t seed = 0;
  bool late = false;  ///< whether the ranks behind the first come late

  [[nodiscard]] std::string str() const {
    std::string all = fmt::format("{}, {} replicas", to_string(dtype), replicas);
    for (const Group& group : groups) {
      all += fmt::format("; group '{}': {} ranks, {} apart", group.name, group.size, group.stride);
    }
    for (const Held& p : held) {
      all += fmt::format("\n{}: in parts in {}, whole in {}", p.name, p.in_parts, p.whole);
    }
    return all;
  }
  [[nodiscard]] const Group& group(const std::string& name) const {
    return *std::ranges::find(groups, name, &Group::name);
  }
  /// Elements of a rank's piece of parameter p.
  [[nodiscard]] std::size_t count(int rank, std::size_t p) const {
    return static_cast<std::size_t>(
        8 + ultra::test::whole_number(seed, rank * replicas / ranks, p, 99));
  }
  /// A rank's gradient of parameter p after sums over some groups, one after the other.
  [[nodiscard]] Values after(std::size_t p, int rank, std::span<const Group> sums) const {
    if (sums.empty()) {
      int source = rank;
      for (const std::string& name : held[p].whole) source = group(name).first_of(source);
      return whole_numbers(seed, source, p, count(rank, p));
    }
    const Group& last = sums.back();
    Values all(count(rank, p), 0.0);
    for (int other = 0; other < ranks; ++other) {
      if (last.first_of(other) != last.first_of(rank)) continue;
      const Values part = after(p, other, sums.first(sums.size() - 1));
      for (std::size_t i = 0; i < std::min(all.size(), part.size()); ++i) all[i] += part[i];
    }
    return all;
  }
  [[nodiscard]] std::vector<Group> in_parts(std::size_t p) const {
    std::vector<Group> all;
    for (const std::string& name : held[p].in_parts) all.push_back(group(name));
    return all;
  }
};

/// @brief What to say about a wrong gradient of parameter p on a rank.
std::string diagnosis(const Case& c, std::size_t p, int rank, const Tensor& found,
                      const Values& right) {
  const Held& held = c.held[p];
  if (held.in_parts.empty()) {
    return held.whole.empty()
               ? "Hint: one rank alone holds this parameter: its gradient is complete."
               : "Hint: every copy has the whole gradient here (CopyGradients::kEqual, as norm "
                 "weights have without sequence parallelism): there is nothing to add up.";
  }
  const std::vector<Group> own = c.in_parts(p);
  const auto after = [&](const std::vector<Group>& sums) { return c.after(p, rank, sums); };
  const auto times = [&](double factor) {
    Values values = right;
    for (double& value : values) value *= factor;
    return values;
  };
  std::vector<Group> as_large;
  std::ranges::copy_if(c.groups, std::back_inserter(as_large),
                       [&](const Group& other) { return other.size == own[0].size; });
  std::vector<std::pair<Values, const char*>> suspects = {
      {after({}),
       c.late ? "Hint: the sums were read while they were under way: wait for the all-reduce first."
       : held.is_norm() ? "Hint: this is this rank's part only. Norm weights are on all ranks of "
                          "tp, and with sequence parallelism each has the gradient that its own "
                          "tokens give: add them up over tp."
                        : "Hint: this is this rank's part only. Key/value heads that several ranks "
                          "hold get a part of their gradient from each: add them up over the ranks "
                          "that hold the same ones."},
      {after(as_large),
       "Hint: this was added up over another group of as many ranks, too. A group is what its name "
       "says: compare Replication::group with the names in RankGroups, not sizes."},
      {after({{.name = "all", .size = c.ranks}}),
       "Hint: this was added up over all ranks. Others hold other heads: only the ranks of the "
       "group that the parameter names add up."}};
  for (const Group& group : own) {
    suspects.push_back({after({group}),
                        "Hint: a parameter may be in parts in several groups at once: add it up "
                        "over each of them."});
  }
  for (int factor = 2; factor <= c.ranks; ++factor) {
    suspects.push_back({times(factor),
                        "Hint: this was added up twice: a gradient is added up once in each group "
                        "that its parameter names, and in no other."});
    suspects.push_back({times(1.0 / factor),
                        "Hint: this is the average: the parts add up to the whole gradient."});
  }
  for (const auto& [values, hint] : suspects) {
    if (values != right && ultra::test::all_near(found, values, 1e-3)) return hint;
  }
  return "Hint: each sum goes back to where its gradient stands, in the order in which they were "
         "put into the array.";
}

/// @brief What one rank has.
struct Holder {
  train::RankGroups groups;
  std::vector<std::unique_ptr<nn::Parameter>> parameters;
  std::vector<std::size_t> numbers;  ///< of the pieces' parameters
  std::vector<Tensor> arrays;        ///< in which the pieces stand
  std::vector<train::GradientPiece> pieces;

  Holder(const Case& c, const Communicator& world) {
    const int rank = world.rank();
    const Device cpu = Device::cpu();
    for (const Group& group : c.groups) {
      const auto first_of = [&](int member) { return group.first_of(member); };
      groups.add(group.name, world.split(first_of, group.name));
    }
    for (std::size_t p = 0; p < c.held.size(); ++p) {
      const std::size_t count = c.count(rank, p);
      const Shape shape = c.held[p].is_norm() ? Shape{count + 1} : Shape{count + 1, 1};
      parameters.push_back(std::make_unique<nn::Parameter>(
          nn::ParameterSpec{
              .name = c.held[p].name, .global_shape = shape, .shard = {}, .initializer = {}},
          cpu, c.dtype, 0, nn::Values::kDeferred));
      for (const auto& [names, gradients] :
           {std::pair{c.held[p].in_parts, nn::CopyGradients::kPartial},
            std::pair{c.held[p].whole, nn::CopyGradients::kEqual}}) {
        for (const std::string& name : names) {
          parameters.back()->replicate({.group = name,
                                        .size = c.group(name).size,
                                        .index = c.group(name).index_of(rank),
                                        .gradients = gradients});
        }
      }
      if (count == 0) continue;
      numbers.push_back(p);
      arrays.push_back(Tensor::empty(cpu, {count + 2}, c.dtype));
      arrays.back().fill(kSomebodyElses);
      const Tensor flat = arrays.back().slice(0, {1, count + 1});
      flat.copy_from(tensor_of(cpu, {count}, c.after(p, rank, {}), c.dtype));
      pieces.push_back({.parameter = parameters.back().get(),
                        .grad = count % 2 == 0 ? flat : flat.view(Shape{count, 1})});
    }
  }
};

/// The sums where they belong, at the cost of one all-reduce per group.
void expect_completed(const Case& c) {
  ultra::test::on_ranks(c.ranks, c.str(), [&](Communicator& world) {
    const Holder holder(c, world);
    if (c.late) ultra::test::come_late(world);
    const CommStats before = world.stats();
    sum_partial_gradients(holder.pieces, holder.groups);
    const CommStats after = world.stats();
    for (std::size_t i = 0; i < holder.pieces.size(); ++i) {
      const std::size_t p = holder.numbers[i];
      const Tensor& found = holder.pieces[i].grad;
      const Values right = c.after(p, world.rank(), c.in_parts(p));
      EXPECT_TRUE(ultra::test::all_equal(found, right))
          << c.held[p].name << " on rank " << world.rank() << "\n"
          << diagnosis(c, p, world.rank(), found, right);
      const Values array = holder.arrays[i].to_vector();
      EXPECT_TRUE(array.front() == kSomebodyElses && array.back() == kSomebodyElses)
          << c.held[p].name
          << "\nHint: what stands beside the piece was written, too: a piece may be a part of a "
             "larger array.";
    }
    std::size_t all_reduces = 0;
    std::size_t elements = 0;
    for (const Group& group : c.groups) {
      std::size_t count = 0;
      for (std::size_t i = 0; i < holder.pieces.size(); ++i) {
        const Names& adds = c.held[holder.numbers[i]].in_parts;
        const bool counts = std::ranges::find(adds, group.name) != adds.end();
        count += counts ? holder.pieces[i].grad.numel() : 0;
      }
      const int index = group.index_of(world.rank());
      const std::size_t share = comm::Chunks::even({0, count}, group.size)[index].size();
      elements += count - share + as_size(group.size - 1) * share;  // of an all-reduce on a ring
      all_reduces += count > 0 && group.size > 1 ? 1U : 0U;
    }
    EXPECT_EQ(after[OpKind::kAllReduce].operations - before[OpKind::kAllReduce].operations,
              all_reduces)
        << "all-reduces\nHint: one all-reduce for each group that has such gradients: put them "
           "into one array. Many small ones would each cost the time of a message.";
    EXPECT_EQ(after.sent_bytes() - before.sent_bytes(), elements * size_of(c.dtype))
        << "bytes sent\nHint: 2 (P-1)/P of what a group of P ranks has in parts, and of nothing "
           "else.";
  });
}

class PartialGradients : public ultra::test::RandomTest {
 protected:
  Case draw(int ranks, std::vector<Group> groups, std::vector<Held> held) {
    if (random.between(0, 1) == 1) std::ranges::reverse(groups);
    std::ranges::rotate(
        held, held.begin() + static_cast<std::ptrdiff_t>(random.between(0, held.size() - 1)));
    return {.ranks = ranks,
            .groups = std::move(groups),
            .held = std::move(held),
            .dtype = random.pick({DType::kF32, DType::kF64}),
            .seed = seed};
  }
  /// A model on tp ranks, of which kv_copies hold the same key/value heads.
  Case draw_model(int tp, int kv_copies, int replicas = 1) {
    std::vector<Held> held;
    for (int layer = 0; layer < 2; ++layer) {
      const std::vector<Held> block = {{"norm behind whole sequences", {}, {"tp"}},
                                       {"norm of own tokens", {"tp"}, {}},
                                       {"queries", {}, {}},
                                       {"keys", {"heads"}, {}},
                                       {"values", {"heads"}, {}}};
      held.insert(held.end(), block.begin(), block.end());
    }
    Case c = draw(tp * replicas, {{.name = "tp", .size = tp}, {.name = "heads", .size = kv_copies}},
                  held);
    c.replicas = replicas;
    return c;
  }
};

TEST_F(PartialGradients, PartsAreAddedUpOverTheRanksThatHoldTheSame) {
  for (const int tp : {1, 2, 3, 4, 6, 8}) {
    for (int copies = 1; copies <= tp; ++copies) {
      if (tp % copies == 0 && !HasFailure()) expect_completed(draw_model(tp, copies));
    }
  }
  for (const int replicas : {2, 3}) expect_completed(draw_model(4, 2, replicas));
}

TEST_F(PartialGradients, GroupsOfEqualSizeAreKeptApart) {
  for (const int size : {2, 3}) {  // rows and columns of a square of ranks
    const std::vector<Group> groups = {{.name = "row", .size = size},
                                       {.name = "column", .size = size, .stride = size}};
    std::vector<Held> held;
    const std::vector<std::pair<Names, Names>> ways = {
        {{"row"}, {}},          {{"column"}, {}},      {{}, {"row"}},
        {{"row"}, {"column"}},  {{"column"}, {"row"}}, {{"row", "column"}, {}},
        {{}, {"row", "column"}}};
    for (const auto& [in_parts, whole] : ways) held.push_back({"matrix", in_parts, whole});
    expect_completed(draw(size * size, groups, held));
  }
}

TEST_F(PartialGradients, TheSumsAreHereWhenTheLastRankHasCome) {
  Case c = draw_model(4, 2);
  c.late = true;
  expect_completed(c);
}

}  // namespace
}  // namespace ultra::tensor_parallel
