#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "chapters/09_kernels/attention/attention_reference.hpp"
#include "chapters/09_kernels/bf16_values.hpp"
#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/ladders.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "common/tensor/philox.hpp"
#include "kernels/ladders/attention/attention_decode/attention_decode.hpp"

namespace ultra::ladders {
namespace {

using simt::bf16;

std::string refuse_heads(const Sizes& sizes) {
  if (sizes[3] > kernels::attention_decode::kMostGroup) {
    return fmt::format("{} heads share a head of keys, expected at most {}", sizes[3],
                       kernels::attention_decode::kMostGroup);
  }
  if (sizes[4] % 8 != 0 || sizes[4] > kernels::attention_decode::kMostHeadDim) {
    return fmt::format("head_dim is {}, expected a multiple of 8, at most {}", sizes[4],
                       kernels::attention_decode::kMostHeadDim);
  }
  return {};
}

// A rung that has all scores of `heads` heads in shared memory, beside 1 KiB x 4 of partial sums and
// a logarithm for each.
std::string refuse_long_sequences(const Sizes& sizes, std::size_t heads) {
  if (std::string refusal = refuse_heads(sizes); !refusal.empty()) {
    return refusal;
  }
  const auto most = static_cast<int>(simt::kMostSharedBytes / sizeof(float) / heads) - 1025;
  return refuse_long_rows(sizes[1], most,
                          {.unit = " scores",
                           .name = "shared memory",
                           .hint = "rung 3 divides sequences among blocks"});
}

std::string refuse_long_for_a_head(const Sizes& sizes) { return refuse_long_sequences(sizes, 1); }

std::string refuse_long_for_a_group(const Sizes& sizes) {
  return refuse_long_sequences(sizes, sizes[3] == 1 ? 1 : sizes[3] <= 4 ? 4 : 8);
}

// From 1 to the most; the first sequence has the most.
std::vector<int> draw_lengths(const Sizes& sizes, std::uint64_t seed) {
  const PhiloxStream stream(seed, "lengths");
  std::vector<int> lengths(size(sizes[0]), sizes[1]);
  for (std::size_t i = 1; i < lengths.size(); ++i) {
    lengths[i] = 1 + static_cast<int>(stream.below(i, static_cast<std::uint64_t>(sizes[1])));
  }
  return lengths;
}

class AttentionDecode {
 public:
  using Problem = kernels::attention_decode::Problem;

  AttentionDecode(const Sizes& sizes, std::uint64_t seed)
      : sizes_(sizes), seed_(seed), lengths_(draw_lengths(sizes, seed)) {
    draw_pages();
    const std::size_t page_elements =
        size(sizes[2]) * size(kernels::attention_decode::kPage) * size(sizes[4]);
    q_ = to_bf16(normal_values(size(sizes[0] * sizes[2] * sizes[3]) * size(sizes[4]), seed, "q"));
    if (seed / 2 % 2 == 1) {  // scores that overflow unless the largest is subtracted
      for (bf16& element : q_) {
        element = bf16(40.0F * static_cast<float>(element));
      }
    }
    k_ = to_bf16(normal_values(size(all_pages_) * page_elements, seed, "k"));
    v_ = to_bf16(normal_values(size(all_pages_) * page_elements, seed, "v"));
    spoil_unused_rows();
  }

  Problem problem(ProblemBuffers& buffers) const {
    const std::size_t rows = q_.size() / size(sizes_[4]);
    const std::size_t parts = rows * size(kernels::attention_decode::parts_of(sizes_[1]));
    return {.batch = sizes_[0],
            .kv_heads = sizes_[2],
            .group = sizes_[3],
            .head_dim = sizes_[4],
            .most_tokens = sizes_[1],
            .lengths = buffers.input("lengths", lengths_),
            .pages = buffers.input("pages", pages_),
            .q = buffers.input("q", q_),
            .k = buffers.input("k", k_),
            .v = buffers.input("v", v_),
            .o = buffers.output<bf16>("o", q_.size()),
            .part_o = buffers.scratch("part_o", parts * size(sizes_[4])),
            .part_lse = buffers.scratch("part_lse", parts)};
  }

  static LadderInfo describe() {
    return {.name = "attention_decode",
            .title = "attention of one query for each sequence, keys and values in pages, in bf16",
            .dimensions = {{.name = "batch", .emulated = 3, .gpu = 8},
                           {.name = "tokens", .emulated = 300, .gpu = 8192},
                           {.name = "kv_heads", .emulated = 2, .gpu = 8},
                           {.name = "group", .emulated = 3, .gpu = 4},
                           {.name = "head_dim", .emulated = 32, .gpu = 128}},
            .limit = Limit::kMemory};
  }

  static std::vector<Rung<Problem>> rungs() {
    namespace rungs_of = kernels::attention_decode;
    using simt::Executor;
    return RungTable<Problem>("attention/attention_decode")
        .add("block_per_head", "a block for each head of queries; scores in shared memory",
             refuse_long_for_a_head,
             []<Executor executor>(const auto&... a) { rungs_of::block_per_head<executor>(a...); })
        .add("grouped", "a block for all heads that share keys and values", refuse_long_for_a_group,
             []<Executor executor>(const auto&... a) { rungs_of::grouped<executor>(a...); })
        .add_exercise("09.9", "split_decode.cu", "split",
                      "a block for each part of a sequence; a kernel puts the parts together",
                      refuse_heads,
                      []<Executor executor>(const auto&... a) { rungs_of::split<executor>(a...); })
        .rungs();
  }

  // Read once: q, the keys and values that there are, their pages; written once: o.
  static Cost cost(const Sizes& sizes, std::uint64_t seed) {
    double tokens = 0.0;
    double pages = 0.0;
    for (const int length : draw_lengths(sizes, seed)) {
      tokens += length;
      pages += kernels::attention_decode::pages_of(length);
    }
    const double pairs = tokens * sizes[2] * sizes[3];
    const double row = 2.0 * sizes[4];
    const double written = double(sizes[0]) * sizes[2] * sizes[3] * row;
    return {.operations = 4.0 * pairs * sizes[4],
            .least_bytes = 2.0 * tokens * sizes[2] * row + 4.0 * (pages + sizes[0]) + 2.0 * written,
            .written_bytes = written};
  }

  // Each sequence's query is the last row of an attention of its own.
  Verdict judge(const Problem& problem, const ProblemBuffers& buffers) const {
    const std::vector<float> o = to_float(buffers.download(problem.o));
    const std::size_t most =
        kMostElements / (size(sizes_[1]) * size(sizes_[2] * sizes_[3]) * size(sizes_[4])) + 2;
    Verdict verdict;
    for (const std::size_t sequence : sample(lengths_.size(), most, seed_)) {
      const AttentionInputs inputs = inputs_of(sequence);
      const std::size_t heads = size(sizes_[2] * sizes_[3]);
      for (std::size_t head = 0; head < heads; ++head) {
        const AttentionRow row(inputs, (head + 1) * size(inputs.shape.seq_len) - 1);
        const std::span<const float> found{&o[(sequence * heads + head) * size(sizes_[4])],
                                           size(sizes_[4])};
        std::vector<float> exact_lse{static_cast<float>(row.lse())};  // no rung writes it
        row.compare(found, exact_lse[0], {.weights = 0.0, .output = kBf16Rounding}, verdict);
      }
    }
    return verdict;
  }

 private:
  static constexpr std::size_t kMostElements = std::size_t{1} << 27;  // of the f64 computation

  // Sequences take pages from a pool in a random order; one page stays unused.
  void draw_pages() {
    const auto needed = [](int length) { return kernels::attention_decode::pages_of(length); };
    all_pages_ = 1;
    for (const int length : lengths_) {
      all_pages_ += needed(length);
    }
    std::vector<int> pool(size(all_pages_));
    std::iota(pool.begin(), pool.end(), 0);
    const PhiloxStream stream(seed_, "pages");
    for (std::size_t left = pool.size(); left > 1; --left) {
      std::swap(pool[left - 1], pool[static_cast<std::size_t>(stream.below(left, left))]);
    }
    const std::size_t of_sequence = size(needed(sizes_[1]));
    pages_.assign(lengths_.size() * of_sequence, -1);
    auto next = pool.begin();
    for (std::size_t sequence = 0; sequence < lengths_.size(); ++sequence) {
      const auto count = static_cast<std::ptrdiff_t>(needed(lengths_[sequence]));
      std::copy(next, next + count,
                pages_.begin() + static_cast<std::ptrdiff_t>(sequence * of_sequence));
      next += count;
    }
  }

  // Where the row of a token's head begins in k_ and v_.
  [[nodiscard]] std::size_t row_of(std::size_t sequence, std::size_t head,
                                   std::size_t token) const {
    const std::size_t page =
        size(pages_[sequence * size(kernels::attention_decode::pages_of(sizes_[1])) +
                    token / size(kernels::attention_decode::kPage)]);
    const std::size_t rows =
        (page * size(sizes_[2]) + head) * size(kernels::attention_decode::kPage);
    return (rows + token % size(kernels::attention_decode::kPage)) * size(sizes_[4]);
  }

  // What is in no sequence is NaN: whoever reads it shows it.
  void spoil_unused_rows() {
    const bf16 nan(std::numeric_limits<float>::quiet_NaN());
    std::vector<bf16> k(k_.size(), nan);
    std::vector<bf16> v(v_.size(), nan);
    for (std::size_t sequence = 0; sequence < lengths_.size(); ++sequence) {
      for (std::size_t head = 0; head < size(sizes_[2]); ++head) {
        for (std::size_t token = 0; token < size(lengths_[sequence]); ++token) {
          const std::size_t first = row_of(sequence, head, token);
          std::copy_n(&k_[first], sizes_[4], &k[first]);
          std::copy_n(&v_[first], sizes_[4], &v[first]);
        }
      }
    }
    k_ = std::move(k);
    v_ = std::move(v);
  }

  // The sequence as a problem of attention; of its queries only the last of each head is set.
  [[nodiscard]] AttentionInputs inputs_of(std::size_t sequence) const {
    const std::size_t columns = size(sizes_[4]);
    const std::size_t length = size(lengths_[sequence]);
    const std::size_t heads = size(sizes_[2] * sizes_[3]);
    AttentionInputs inputs{.shape = {.batch = 1,
                                     .kv_heads = sizes_[2],
                                     .group = sizes_[3],
                                     .seq_len = lengths_[sequence],
                                     .head_dim = sizes_[4],
                                     .causal = false,
                                     .scale = 1.0F / std::sqrt(static_cast<float>(sizes_[4]))},
                           .seed = seed_,
                           .q = std::vector<float>(heads * length * columns),
                           .k = {},
                           .v = {}};
    for (std::size_t head = 0; head < heads; ++head) {
      for (std::size_t d = 0; d < columns; ++d) {
        inputs.q[((head + 1) * length - 1) * columns + d] =
            static_cast<float>(q_[(sequence * heads + head) * columns + d]);
      }
    }
    for (std::size_t head = 0; head < size(sizes_[2]); ++head) {
      for (std::size_t token = 0; token < length; ++token) {
        const std::size_t first = row_of(sequence, head, token);
        for (std::size_t d = 0; d < columns; ++d) {
          inputs.k.push_back(static_cast<float>(k_[first + d]));
          inputs.v.push_back(static_cast<float>(v_[first + d]));
        }
      }
    }
    return inputs;
  }

  Sizes sizes_;
  std::uint64_t seed_;
  std::vector<int> lengths_;  // (batch)
  std::vector<int> pages_;    // (batch, pages of the longest); -1 where a sequence has none
  int all_pages_ = 0;
  std::vector<bf16> q_;  // (batch, kv_heads * group, head_dim)
  std::vector<bf16> k_;  // (pages, kv_heads, kPage, head_dim)
  std::vector<bf16> v_;  // as k
};

}  // namespace

std::unique_ptr<Ladder> attention_decode_ladder() {
  return std::make_unique<LadderOf<AttentionDecode>>();
}

}  // namespace ultra::ladders
