// Contract of exercise 05.5: sums of whole numbers, norms against a loop over every element once, the
// gradient of a norm's weight against one rank that has all tokens, and what is sent.
#include "chapters/05_tensor_sequence_parallel/partial_gradients.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/nn/layers/norm.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/on_ranks.hpp"
#include "tests/support/random.hpp"
#include "tests/support/suspects.hpp"

namespace ultra::tensor_parallel {
namespace {

using nn::CopyGradients;
using test::count_of;
using test::kFloatDTypes;
using test::Random;
using ultra::test::come_late;
using ultra::test::on_ranks;
using ultra::test::whole_number;
using Values = std::vector<double>;

constexpr const char* kNormsForgotten =
    "Hint: this is this rank's part only. Norm weights are on all ranks of tp, and with sequence "
    "parallelism each has the gradient that its own tokens give: add them up over tp.";
constexpr const char* kHeadsForgotten =
    "Hint: this is this rank's part only. Key/value heads that several ranks hold get a part of "
    "their "
    "gradient from each: add them up over the ranks that hold the same copies.";
constexpr const char* kOverAll =
    "Hint: this was added up over all of tp. Other ranks hold other heads: only the ranks that "
    "hold "
    "the same copies add up, and their group is the one of Copies::count ranks.";
constexpr const char* kTwice =
    "Hint: this was added up twice: a gradient belongs to one group, the one of Copies::count "
    "ranks.";
constexpr const char* kAverage =
    "Hint: this is the average: the parts add up to the whole gradient.";
constexpr const char* kEqual =
    "Hint: every copy has the whole gradient here (CopyGradients::kEqual, as norm weights have "
    "without sequence parallelism): there is nothing to add up.";
constexpr const char* kAlone =
    "Hint: one rank alone holds this parameter: its gradient is complete.";
constexpr const char* kEarly =
    "Hint: the sums were read while they were under way: wait for the all-reduce first.";
constexpr const char* kPlaces =
    "Hint: each sum goes back to where its gradient stands, in the order in which they were put "
    "into "
    "the array.";
constexpr const char* kNeighbours =
    "Hint: what stands beside the piece was written, too: a piece may be a part of a larger array.";
constexpr const char* kOne =
    "Hint: one all-reduce for each group that has such gradients: put them into one array. Many "
    "small "
    "ones would each cost the time of a message.";

std::size_t as_size(int number) { return static_cast<std::size_t>(number); }

/// A parameter of a model that is split over ranks.
struct Held {
  std::string name;
  std::size_t count = 1;                            ///< elements
  int copies = 1;                                   ///< neighbouring ranks that hold the same ones
  CopyGradients gradients = CopyGradients::kEqual;  ///< what each of them has

  [[nodiscard]] int first_holder(int rank) const { return rank / copies * copies; }
  [[nodiscard]] bool in_parts() const { return gradients == CopyGradients::kPartial; }
};

/// What the ranks hold.
struct Case {
  int ranks = 1;
  DType dtype = DType::kF32;
  std::vector<int> group_sizes;  ///< in the order in which the groups are given
  std::vector<Held> held;
  std::uint64_t seed = 0;

  [[nodiscard]] std::string str() const {
    std::string all = std::string(to_string(dtype));
    for (const Held& p : held) {
      all += fmt::format(", {} ({} elements, {} copies{})", p.name, p.count, p.copies,
                         p.copies == 1  ? ""
                         : p.in_parts() ? " in parts"
                                        : ", each whole");
    }
    return all;
  }
  /// The gradient that a rank has before anything is added up.
  [[nodiscard]] Values before(int rank, std::size_t p) const {
    const int source = held[p].in_parts() ? rank : held[p].first_holder(rank);
    Values values;
    for (std::size_t i = 0; i < held[p].count; ++i) {
      values.push_back(whole_number(seed, source, p, i));
    }
    return values;
  }
  [[nodiscard]] Values sum(int begin, int end, std::size_t p) const {
    Values sums(held[p].count, 0.0);
    for (int rank = begin; rank < end; ++rank) {
      const Values part = before(rank, p);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += part[i];
    }
    return sums;
  }
  [[nodiscard]] Values after(int rank, std::size_t p) const {
    const int first = held[p].first_holder(rank);
    return held[p].in_parts() ? sum(first, first + held[p].copies, p) : before(rank, p);
  }
  [[nodiscard]] std::size_t elements_in_parts(int copies) const {
    std::size_t count = 0;
    for (const Held& p : held) count += p.in_parts() && p.copies == copies ? p.count : 0;
    return count;
  }
};

Values times(double factor, Values values) {
  for (double& value : values) value *= factor;
  return values;
}

/// What a rank has: each piece stands between two elements that are somebody else's.
class Holder {
 public:
  static constexpr double kSomebodyElses = 77;

  Holder(const Case& the_case, const Communicator& tp) : case_(the_case), tp_(tp) {
    for (const Held& p : case_.held) {
      // One row for a norm, and a matrix for what is not; pieces are flat, or of the same shape.
      const bool norm = p.copies == case_.ranks;
      const Shape shape = norm ? Shape{p.count} : Shape{p.count, 1};
      parameters_.push_back(std::make_unique<nn::Parameter>(
          nn::ParameterSpec{
              .name = p.name, .global_shape = shape, .shard = {}, .initializer = {}, .padding = 0},
          device_, case_.dtype, case_.seed, nn::Values::kDeferred));
      parameters_.back()->set_copies(
          {.count = p.copies, .index = tp.rank() % p.copies, .gradients = p.gradients});
      arrays_.push_back(Tensor::empty(device_, {p.count + 2}, case_.dtype));
      arrays_.back().fill(kSomebodyElses);
      const Tensor flat = arrays_.back().slice(0, {1, p.count + 1});
      pieces_.push_back({.parameter = parameters_.back().get(),
                         .grad = p.count % 2 == 0 ? flat : flat.view(shape)});
    }
    for (const int size : case_.group_sizes) {
      groups_.push_back(size == tp.size() ? tp : tp.split(tp.rank() / size, tp.rank(), "copies"));
    }
    for (std::size_t p = 0; p < pieces_.size(); ++p) set(p, case_.before(tp.rank(), p));
  }

  void set(std::size_t p, const Values& values) const {
    const Shape& shape = pieces_[p].grad.shape();
    pieces_[p].grad.copy_from(Tensor::from<double>(device_, shape, values).to(case_.dtype));
  }

  void add_up() const { sum_partial_gradients(pieces_, groups_); }

  [[nodiscard]] double norm() const { return norm_over_ranks(pieces_, tp_); }
  [[nodiscard]] const std::vector<train::GradientPiece>& pieces() const { return pieces_; }

  void expect_sums(const char* hint = kPlaces) const {
    for (std::size_t p = 0; p < pieces_.size(); ++p) {
      EXPECT_TRUE(test::all_equal(pieces_[p].grad, case_.after(tp_.rank(), p)))
          << case_.held[p].name << " on rank " << tp_.rank() << "\n"
          << diagnosis(p, hint);
      const Values array = arrays_[p].to_vector();
      EXPECT_TRUE(array.front() == kSomebodyElses && array.back() == kSomebodyElses)
          << case_.held[p].name << " on rank " << tp_.rank() << "\n"
          << kNeighbours;
    }
  }

  /// Bytes that the sums take this rank, by the closed form of the platform's own all-reduce.
  [[nodiscard]] std::size_t bytes_of_sums() const {
    std::size_t elements = 0;
    for (const Communicator& group : groups_) {
      const std::size_t count = case_.elements_in_parts(group.size());
      const std::size_t share = comm::Chunks::even({0, count}, group.size())[group.rank()].size();
      elements += count - share + as_size(group.size() - 1) * share;
    }
    return elements * size_of(case_.dtype);
  }

 private:
  [[nodiscard]] const char* diagnosis(std::size_t p, const char* otherwise) const {
    const Held& held = case_.held[p];
    const Values found = pieces_[p].grad.to_vector();
    if (!held.in_parts()) return held.copies == 1 ? kAlone : kEqual;
    const Values right = case_.after(tp_.rank(), p);
    if (found == case_.before(tp_.rank(), p)) {
      if (otherwise == kEarly) return kEarly;
      return held.copies == case_.ranks ? kNormsForgotten : kHeadsForgotten;
    }
    if (found == case_.sum(0, case_.ranks, p)) return kOverAll;
    for (int factor = 2; factor <= case_.ranks; ++factor) {
      if (found == times(factor, right)) return kTwice;
    }
    const double close = test::rounding_bound(case_.dtype, 4, test::largest_magnitude(right));
    const bool averaged = test::all_near(pieces_[p].grad, times(1.0 / held.copies, right), close);
    return averaged ? kAverage : otherwise;
  }

  Case case_;
  Communicator tp_;
  Device device_ = Device::cpu();
  std::vector<std::unique_ptr<nn::Parameter>> parameters_;
  std::vector<Tensor> arrays_;
  std::vector<train::GradientPiece> pieces_;
  std::vector<Communicator> groups_;
};

class PartialGradients : public test::RandomTest {
 protected:
  /// Norm weights, heads and matrices of one rank, in any order.
  /// @param kv_copies  ranks that hold the same key/value heads.
  Case draw(int ranks, int kv_copies, CopyGradients of_norms) {
    Case c{.ranks = ranks,
           .dtype = random.pick({DType::kF32, DType::kF64}),
           .group_sizes = {ranks},
           .held = {},
           .seed = seed};
    if (kv_copies > 1 && kv_copies < ranks) {
      c.group_sizes.insert(c.group_sizes.begin() + (random.between(0, 1) == 0 ? 0 : 1), kv_copies);
    }
    const std::size_t layers = random.between(1, 3);
    const auto some = [&] { return random.between(1, 9); };
    const CopyGradients of_heads = kv_copies > 1 ? CopyGradients::kPartial : CopyGradients::kEqual;
    for (std::size_t i = 0; i < layers; ++i) {
      const std::string layer = fmt::format("layer {} ", i);
      c.held.push_back({layer + "norm", some(), ranks, of_norms});
      c.held.push_back({layer + "queries", some(), 1, CopyGradients::kEqual});
      c.held.push_back({layer + "keys", some(), kv_copies, of_heads});
      c.held.push_back({layer + "values", some(), kv_copies, of_heads});
    }
    c.held.push_back({"last norm", some(), ranks, of_norms});
    // The same permutation on every rank.
    for (std::size_t i = c.held.size(); i > 1; --i) {
      std::swap(c.held[i - 1], c.held[random.between(0, i - 1)]);
    }
    return c;
  }

  /// Calls check(case) for any number of ranks and copies until one fails.
  template <class Check>
  void for_cases(const Check& check) {
    for (const int ranks : {1, 2, 3, 4, 6, 8}) {
      for (int copies = 1; copies <= ranks; ++copies) {
        if (ranks % copies != 0) continue;
        for (const CopyGradients of_norms : {CopyGradients::kPartial, CopyGradients::kEqual}) {
          if (!HasFailure()) check(draw(ranks, copies, of_norms));
        }
      }
    }
  }
};

// Sums --------------------------------------------------------------------------------------------

TEST_F(PartialGradients, PartsAreAddedUpOverTheRanksThatHoldTheSame) {
  for_cases([](const Case& c) {
    on_ranks(c.ranks, c.str(), [&](Communicator& tp) {
      const Holder holder(c, tp);
      holder.add_up();
      holder.expect_sums();
    });
  });
}

TEST_F(PartialGradients, AGroupAllReducesOnce) {
  for_cases([](const Case& c) {
    if (c.ranks == 1) return;
    on_ranks(c.ranks, c.str(), [&](Communicator& tp) {
      const Holder holder(c, tp);
      const CommStats before = tp.stats();
      holder.add_up();
      const CommStats after = tp.stats();
      std::size_t groups = 0;
      for (const int size : c.group_sizes) groups += c.elements_in_parts(size) > 0 ? 1U : 0U;
      EXPECT_EQ(after[OpKind::kAllReduce].operations - before[OpKind::kAllReduce].operations,
                groups)
          << "all-reduces\n"
          << kOne;
      EXPECT_EQ(after.sent_bytes() - before.sent_bytes(), holder.bytes_of_sums())
          << "bytes sent\nHint: 2 (P-1)/P of what a group of P ranks has in parts, and of nothing "
             "else.";
    });
  });
}

TEST_F(PartialGradients, TheSumsAreHereWhenTheLastRankHasCome) {
  const Case c = draw(4, 2, CopyGradients::kPartial);
  on_ranks(c.ranks, c.str(), [&](Communicator& tp) {
    const Holder holder(c, tp);
    come_late(tp);
    holder.add_up();
    holder.expect_sums(kEarly);
  });
}

TEST_F(PartialGradients, AllCopiesHaveTheSameBits) {
  for (const DType dtype : kFloatDTypes) {
    Case c = draw(6, 3, CopyGradients::kPartial);
    c.dtype = dtype;
    std::vector<std::vector<Values>> parts(6);
    std::vector<std::vector<Values>> sums(6);
    on_ranks(c.ranks, c.str(), [&](Communicator& tp) {
      const Holder holder(c, tp);
      const std::size_t r = as_size(tp.rank());
      Random own(seed + r);
      for (std::size_t p = 0; p < c.held.size(); ++p) {
        if (c.held[p].in_parts()) {
          holder.set(p, own.tensor(Device::cpu(), {c.held[p].count}, DType::kF64).to_vector());
        }
        parts[r].push_back(holder.pieces()[p].grad.to_vector());
      }
      holder.add_up();
      for (const auto& piece : holder.pieces()) sums[r].push_back(piece.grad.to_vector());
    });
    for (int rank = 0; rank < c.ranks && !HasFailure(); ++rank) {
      for (std::size_t p = 0; p < c.held.size() && !HasFailure(); ++p) {
        if (!c.held[p].in_parts()) continue;
        const int first = c.held[p].first_holder(rank);
        EXPECT_TRUE(sums[as_size(rank)][p] == sums[as_size(first)][p])
            << c.held[p].name << " on ranks " << rank << " and " << first
            << "\nHint: copies that differ in a bit drift apart: every rank has the same sum.";
        for (std::size_t i = 0; i < c.held[p].count; ++i) {
          double sum = 0;
          double size = 0;
          for (int r = first; r < first + c.held[p].copies; ++r) {
            sum += parts[as_size(r)][p][i];
            size += std::abs(parts[as_size(r)][p][i]);
          }
          EXPECT_NEAR(sums[as_size(rank)][p][i], sum, test::rounding_bound(dtype, 6, size))
              << c.held[p].name << ", element " << i << " on rank " << rank << "\n"
              << kPlaces;
        }
      }
    }
  }
}

// Two micro-batches through an RMSNorm: each rank has its tokens, one rank has all.
TEST_F(PartialGradients, ANormsGradientIsThatOfAllTokensOfAllMicroBatches) {
  for (const DType dtype : kFloatDTypes) {
    for (const int ranks : {1, 2, 4}) {
      const std::size_t local_seq = random.between(1, 3);
      const std::size_t hidden = random.between(2, 6);
      const std::size_t seq = as_size(ranks) * local_seq;
      const std::size_t batch = 2;
      std::vector<Tensor> x;
      std::vector<Tensor> d_y;
      for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
        x.push_back(random.tensor(device, {batch, seq, hidden}, dtype));
        d_y.push_back(random.tensor(device, {batch, seq, hidden}, dtype));
      }
      nn::ModelConfig model;
      model.hidden_size = hidden;
      nn::DenseFactory factory;
      const auto gradient_of = [&](nn::RmsNorm& norm, Range tokens) {
        for (std::size_t i = 0; i < x.size(); ++i) {
          nn::Saved saved;
          (void)norm.forward(x[i].slice(1, tokens).clone(), saved);
          (void)norm.backward(d_y[i].slice(1, tokens).clone(), saved);
        }
      };
      const auto context = [&](const Device& own) {
        return nn::BuildContext{model, own, dtype, seed, nullptr, factory};
      };
      nn::RmsNorm dense(context(device), "norm");
      gradient_of(dense, {0, seq});
      const Tensor expected = dense.parameters()[0]->grad();
      // |x / rms| is at most sqrt(hidden).
      double size = 0;
      for (const Tensor& d : d_y) {
        for (const double value : d.to_vector()) size += std::abs(value);
      }
      const double tolerance = test::rounding_bound(dtype, count_of(4 * batch * seq + hidden + 20),
                                                    size * std::sqrt(count_of(hidden)));
      on_ranks(ranks, fmt::format("RMSNorm, {}", to_string(dtype)), [&](Communicator& tp) {
        nn::RmsNorm norm(context(Device::cpu()), "norm");
        nn::Parameter* weight = norm.parameters()[0];
        weight->set_copies(
            {.count = ranks, .index = tp.rank(), .gradients = CopyGradients::kPartial});
        gradient_of(norm, {as_size(tp.rank()) * local_seq, as_size(tp.rank() + 1) * local_seq});
        const std::vector<train::GradientPiece> pieces = {
            {.parameter = weight, .grad = weight->grad()}};
        const Communicator groups[] = {tp};
        sum_partial_gradients(pieces, groups);
        const double length = norm_over_ranks(pieces, tp);
        EXPECT_TRUE(test::all_near(weight->grad(), expected, tolerance)) << kNormsForgotten;
        const double dense_length =
            train::gradient_norm(std::vector<train::GradientPiece>{{weight, expected}});
        EXPECT_NEAR(length, dense_length, std::sqrt(count_of(hidden)) * tolerance)
            << "Hint: the gradient of the weight stands on every rank, and counts once.";
      });
    }
  }
}

// The norm ----------------------------------------------------------------------------------------

double squares_of(const Values& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return sum;
}

TEST_F(PartialGradients, TheNormCountsEveryElementOnceAndIsTheSameOnAllRanks) {
  for_cases([this](const Case& c) {
    // In f32 the squares of 1e25 are too large.
    const double scale = random.pick({1e-3, 1.0, 1e25});
    std::vector<double> squares(as_size(c.ranks), 0.0);  // of all that a rank has
    std::vector<double> first(as_size(c.ranks), 0.0);    // of that, where it holds the first copy
    std::vector<double> alone(as_size(c.ranks), 0.0);    // of that, where there are no others
    std::vector<double> found(as_size(c.ranks), 0.0);
    std::vector<std::size_t> sent(as_size(c.ranks));
    on_ranks(c.ranks, c.str(), [&](Communicator& tp) {
      const std::size_t r = as_size(tp.rank());
      const Holder holder(c, tp);
      for (std::size_t p = 0; p < c.held.size(); ++p) {
        const Held& held = c.held[p];
        Random own(seed + 100 * p + as_size(held.first_holder(tp.rank())));
        holder.set(p, own.tensor(Device::cpu(), {held.count}, DType::kF64, scale).to_vector());
        const double sum = squares_of(holder.pieces()[p].grad.to_vector());
        squares[r] += sum;
        if (tp.rank() == held.first_holder(tp.rank())) first[r] += sum;
        if (held.copies == 1) alone[r] += sum;
      }
      const std::size_t before = tp.stats().sent_bytes();
      found[r] = holder.norm();
      sent[r] = tp.stats().sent_bytes() - before;
    });
    const auto total = [](const std::vector<double>& all) {
      double sum = 0;
      for (const double value : all) sum += value;
      return sum;
    };
    const double expected = std::sqrt(total(first));
    double norms = 0;
    std::size_t all_sent = 0;
    for (std::size_t r = 0; r < found.size(); ++r) norms += std::sqrt(first[r]);
    for (std::size_t r = 0; r < found.size(); ++r) {
      const std::vector<test::Suspect> suspects = {
          {std::sqrt(total(squares)),
           "the copies count several times: only the one of index 0 counts."},
          {std::sqrt(first[r]),
           "this is the norm of what this rank counts: the squares of all ranks are added up."},
          {std::sqrt(squares[r]),
           "this is the norm of this rank's pieces: the squares of all ranks are added up."},
          {std::sqrt(total(alone)), "what several ranks hold is missing: its first copy counts."},
          {norms, "squares add up over the ranks, norms do not."},
          {expected * expected, "the root of the sum is missing."},
          {expected / std::sqrt(count_of(found.size())), "the squares add up: no average."}};
      const std::string hint = test::diagnosis(found[r], expected, suspects, 1e-9);
      EXPECT_NEAR(found[r], expected, test::rounding_bound(DType::kF64, 200, expected))
          << "norm on rank " << r << "\n"
          << (hint.empty() ? "Hint: add the squares up in f64: those of large gradients do not fit "
                             "into f32."
                           : hint);
      EXPECT_EQ(found[r], found[0]) << "Hint: all ranks must clip alike, to the last bit.";
      all_sent += sent[r];
      if (HasFailure()) {
        ADD_FAILURE() << "on " << c.ranks << " ranks: " << c.str();
        return;
      }
    }
    EXPECT_EQ(all_sent, 2 * as_size(c.ranks - 1) * sizeof(double))
        << "bytes that all ranks send for the norm\nHint: one f64 is all-reduced.";
  });
}

TEST_F(PartialGradients, ARankWithoutPiecesHasTheSameNorm) {
  on_ranks(
      3, "only the last rank has a gradient", [&](Communicator& ranks) {
        Case c{.ranks = 3, .dtype = DType::kF32, .group_sizes = {}, .held = {}, .seed = seed};
        if (ranks.rank() == 2) c.held = {{"matrix", 2, 1, CopyGradients::kEqual}};
        const Holder holder(c, ranks);
        if (ranks.rank() == 2) holder.set(0, {3.0, -4.0});
        EXPECT_EQ(holder.norm(), 5.0)
            << "Hint: a rank that has nothing to count takes part in the all-reduce all the same.";
      });
}

}  // namespace
}  // namespace ultra::tensor_parallel
