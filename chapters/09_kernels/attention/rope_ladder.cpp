#include "chapters/09_kernels/ladders.hpp"

#include <cmath>

#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/ladders/elements/rope/rope.hpp"

namespace ultra::ladders {
namespace {

constexpr double kTheta = 10000.0;

class Rope {
 public:
  using Problem = kernels::rope::Problem;

  /// Two documents packed one behind the other: positions start anew in the second one.
  Rope(const Sizes& sizes, std::uint64_t seed)
      : tokens_(sizes[0]),
        query_heads_(sizes[1]),
        key_heads_(sizes[2]),
        pairs_(sizes[3]),
        rotation_(seed % 2 == 1 ? kernels::rope::Rotation::kForward
                                : kernels::rope::Rotation::kBackward),
        seed_(seed),
        queries_(normal_values(elements(query_heads_), seed, "queries")),
        keys_(normal_values(elements(key_heads_), seed, "keys")) {
    const int positions = positions_of(tokens_);
    for (int token = 0; token < tokens_; ++token) {
      positions_.push_back(token % positions);
    }
    for (int position = 0; position < positions; ++position) {
      for (int pair = 0; pair < pairs_; ++pair) {
        cosines_.push_back(static_cast<float>(std::cos(angle(position, pair))));
        sines_.push_back(static_cast<float>(std::sin(angle(position, pair))));
      }
    }
  }

  Problem problem(ProblemBuffers& buffers) const {
    return {.tokens = tokens_,
            .query_heads = query_heads_,
            .key_heads = key_heads_,
            .pairs = pairs_,
            .theta = kTheta,
            .rotation = rotation_,
            .positions = buffers.input("positions", positions_),
            .cosines = buffers.input("cosines", cosines_),
            .sines = buffers.input("sines", sines_),
            .queries = buffers.input("queries", queries_),
            .keys = buffers.input("keys", keys_)};
  }

  static LadderInfo describe() {
    return {.name = "rope",
            .title = "rotary position embedding of queries and keys, in place, in fp32",
            .dimensions = {{.name = "tokens", .emulated = 12, .gpu = 8192},
                           {.name = "query heads", .emulated = 6, .gpu = 32},
                           {.name = "key heads", .emulated = 2, .gpu = 8},
                           {.name = "pairs", .emulated = 32, .gpu = 64}},
            .limit = Limit::kMemory};
  }

  static std::vector<Rung<Problem>> rungs() {
    namespace rungs_of = kernels::rope;
    using simt::Executor;
    return RungTable<Problem>("elements/rope")
        .add("computed_angles", "one thread per pair, which computes its sine and cosine",
             []<Executor executor>(const auto&... a) { rungs_of::computed_angles<executor>(a...); })
        .add("table", "sines and cosines from a table",
             []<Executor executor>(const auto&... a) { rungs_of::table<executor>(a...); })
        .add("vectorised", "accesses of 16 bytes: four pairs a thread",
             []<Executor executor>(const auto&... a) { rungs_of::vectorised<executor>(a...); })
        .add("fused", "queries and keys in one launch, angles kept for several heads",
             []<Executor executor>(const auto&... a) { rungs_of::fused<executor>(a...); })
        .rungs();
  }

  /// Per pair: four products, two additions.
  static Cost cost(const Sizes& sizes) {
    const double tokens = sizes[0];
    const double heads = double(sizes[1]) + double(sizes[2]);
    const double pairs = sizes[3];
    return {.operations = 6.0 * tokens * heads * pairs,
            .least_bytes = 4.0 * (2.0 * tokens * heads * 2.0 * pairs + tokens +
                                  2.0 * positions_of(sizes[0]) * pairs),
            .written_bytes = 4.0 * tokens * heads * 2.0 * pairs};
  }

  Verdict judge(const Problem& problem, const ProblemBuffers& buffers) const {
    Verdict verdict;
    compare("queries", buffers.download(problem.queries), queries_, query_heads_, verdict);
    compare("keys", buffers.download(problem.keys), keys_, key_heads_, verdict);
    return verdict;
  }

 private:
  static constexpr std::size_t kMostHeads = std::size_t{1} << 16;  // of the f64 computation

  static int positions_of(int tokens) { return (2 * tokens + 2) / 3; }
  [[nodiscard]] double angle(int position, int pair) const {
    return position * std::pow(kTheta, -static_cast<double>(pair) / pairs_);
  }
  [[nodiscard]] std::size_t elements(int heads) const {
    return element_count({tokens_, heads, 2, pairs_});
  }

  // A sine or cosine from the table is off by u; the products and their sum add 2 u. One that a
  // kernel computes has an argument of at most one half turn, rounded, so off by pi u, and an error
  // of 2 ulp, at most 4 u (CUDA C++ Programming Guide, mathematical functions): 10 u of the pair in
  // all.
  void compare(const char* name, const std::vector<float>& found, const std::vector<float>& before,
               int heads, Verdict& verdict) const {
    const auto pairs = static_cast<std::size_t>(pairs_);
    const double direction = rotation_ == kernels::rope::Rotation::kForward ? 1.0 : -1.0;
    for (const std::size_t head : sample(before.size() / (2 * pairs), kMostHeads, seed_)) {
      const int position = positions_[head / static_cast<std::size_t>(heads)];
      for (int pair = 0; pair < pairs_; ++pair) {
        const std::size_t first = head * 2 * pairs + static_cast<std::size_t>(pair);
        const std::size_t second = first + pairs;
        const double a = before[first];
        const double b = before[second];
        const double cosine = std::cos(angle(position, pair));
        const double sine = direction * std::sin(angle(position, pair));
        const double tolerance = rounding_of(10) * (std::abs(a) + std::abs(b));
        verdict.compare(name, first, double{found[first]}, a * cosine - b * sine, tolerance);
        verdict.compare(name, second, double{found[second]}, b * cosine + a * sine, tolerance);
      }
    }
  }

  int tokens_;
  int query_heads_;
  int key_heads_;
  int pairs_;
  kernels::rope::Rotation rotation_;
  std::uint64_t seed_;
  std::vector<float> queries_;  // (tokens, query_heads, 2 pairs)
  std::vector<float> keys_;     // (tokens, key_heads, 2 pairs)
  std::vector<int> positions_;  // (tokens)
  std::vector<float> cosines_;  // (positions, pairs)
  std::vector<float> sines_;    // (positions, pairs)
};

}  // namespace

std::unique_ptr<Ladder> rope_ladder() { return std::make_unique<LadderOf<Rope>>(); }

}  // namespace ultra::ladders
