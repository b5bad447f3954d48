// Where tiles, vectors and rows end: shapes that random ones meet seldom; what rungs refuse, in words; and
// which accesses to shared memory never meet in a bank.

#include "kernels/ladders/rows/cross_entropy/cross_entropy.hpp"
#include "tests/chapters/09_kernels/ladder_fixture.hpp"

namespace ultra::ladders::corners_test {

using Rungs = std::vector<std::string>;
using Seeds = std::vector<std::uint64_t>;

constexpr std::uint64_t kSeed = 1;

// Of attention: an even seed has no causal mask, and large inputs have 2 and 3.
const Seeds kMasks = {4, 1};
const Seeds kLargeMasks = {2, 3};
const Seeds kMasksOfLarge = {4, 3};

// In the emulator that checks accesses, in the fast one, or in both.
using Executors = std::vector<simt::Executor>;
const Executors kChecked = {simt::Executor::kChecked};
const Executors kFast = {simt::Executor::kFast};
const Executors kBoth = {simt::Executor::kChecked, simt::Executor::kFast};

// The rungs for any GPU: those for Hopper have tiles and engines of their own.
const Rungs kAnyGpu = {};
const Rungs kHopper = {"for Hopper"};
const Rungs kAll = {"all"};

Rungs names_of(const Ladder& ladder, const Rungs& rungs) {
  if (!rungs.empty() && rungs != kHopper && rungs != kAll) return rungs;
  Rungs names;
  for (const RungInfo& rung : ladder.rungs()) {
    const bool any_gpu = rung.needs == Needs::kAnything;
    if (rungs == kAll || any_gpu == (rungs == kAnyGpu)) names.push_back(rung.name);
  }
  return names;
}

struct Corners {
  const char* ladder;
  Rungs rungs;
  std::vector<Sizes> sizes;
  Seeds seeds = {kSeed};
  Executors executors = kChecked;
};

// The same sizes but for one of them.
std::vector<Sizes> varied(const Sizes& sizes, std::size_t at, const std::vector<int>& values) {
  std::vector<Sizes> all(values.size(), sizes);
  for (std::size_t i = 0; i < values.size(); ++i) all[i][at] = values[i];
  return all;
}

const std::vector<Sizes> kFp32Heads = {{2, 1, 1, 1, 4},   {1, 1, 1, 1, 128},  {3, 2, 1, 65, 16},
                                       {2, 1, 5, 13, 64}, {1, 2, 2, 40, 100}, {1, 2, 3, 17, 128}};
const std::vector<Sizes> kBf16Heads = {{2, 1, 1, 1, 8},    {1, 1, 1, 1, 128}, {3, 2, 1, 65, 16},
                                       {1, 1, 5, 27, 64},  {2, 1, 5, 13, 64}, {1, 2, 2, 40, 104},
                                       {1, 1, 2, 129, 128}};
const std::vector<Sizes> kWarpgroupHeads = {
    {2, 1, 2, 1, 8}, {1, 2, 1, 260, 128}, {1, 1, 3, 193, 64}, {1, 1, 1, 450, 40}};
const std::vector<Sizes> kOneKernelHeads = {
    {2, 1, 2, 1, 8}, {1, 2, 1, 300, 128}, {1, 1, 3, 193, 64}, {1, 1, 1, 321, 72}};

const std::vector<Corners> kCorners = {
    {"attention", kAnyGpu, kFp32Heads, kMasksOfLarge, kFast},
    {"attention_bf16", kAnyGpu, kBf16Heads, kMasksOfLarge, kFast},
    {"attention_bf16", {"warpgroups", "ping_pong", "persistent"}, kWarpgroupHeads, kMasks, kBoth},
    {"attention_backward", kAnyGpu, kFp32Heads, kLargeMasks, kFast},
    {"attention_backward_bf16", kAnyGpu, kBf16Heads, kLargeMasks, kFast},
    {"attention_backward_bf16", {"one_kernel"}, kOneKernelHeads, {4, 1, 2, 3}, kFast},
    {"attention_backward_bf16", {"one_kernel"}, kOneKernelHeads, {3}},
    {"attention_varlen",
     kAnyGpu,
     {{1, 1, 1, 1, 8}, {9, 20, 1, 1, 32}, {3, 130, 2, 1, 72}, {150, 2, 1, 1, 16}},
     {4, 5, 6, 7},
     kFast},
    {"attention_backward_varlen",
     {"tiles_of_documents"},
     {{1, 1, 1, 1, 8}, {7, 20, 1, 2, 32}, {3, 140, 1, 1, 72}},
     {4, 5}},
    {"attention_decode",
     kAnyGpu,
     {{1, 1, 1, 1, 8},
      {2, 17, 1, 8, 128},
      {1, 256, 1, 2, 64},
      {3, 257, 2, 1, 40},
      {1, 800, 1, 5, 16}},
     {1, 2}},
    // Lengths around the limits between the kernels that the launchers choose from.
    {"softmax",
     {"registers"},
     varied({5, 0}, 1, {1, 3, 128, 129, 255, 256, 260, 512, 515, 1024, 1028, 2047, 2048}),
     {kSeed},
     kFast},
    {"softmax",
     {"block_per_row"},
     varied({2, 0}, 1, {1, 31, 513, 4096, 16384, 16388, 32767, 32768}),
     {kSeed},
     kFast},
    {"softmax", {"long_rows"}, varied({2, 0}, 1, {8191, 8192, 8193, 8196, 40000}), {kSeed}, kFast},
    {"softmax", {"long_rows"}, {{1, 8196}}},
    {"rope", kAll, {{7, 3, 1, 20}}, {1, 2}, kFast},     // forward and back
    {"rope", kAll, {{6000, 1, 1, 4}}, {kSeed}, kFast},  // positions far away
    {"token_permutation",
     kAnyGpu,
     {{1, 1, 1, 1}, {255, 8, 2, 1}, {257, 3, 256, 1}, {300, 8, 256, 8}, {64, 40, 8, 8}}},
    // Experts without tokens, and tiles that are full.
    {"grouped_matmul", kAnyGpu, {{64, 3, 8, 8}, {1, 256, 128, 64}, {2, 129, 9, 200}}},
    // More blocks than one in both directions, edges inside a float4 and between two; fewer tiles along
    // the depth than are under way at a time, and more.
    {"matmul_fp32",
     {"register_tile", "vectorised", "warp_tile", "pipelined", "large_tile"},
     {{130, 259, 17}, {132, 260, 20}, {1, 4, 4}, {3, 1, 57}, {4, 8, 92}, {129, 2, 1}},
     {kSeed},
     kBoth},
    {"matmul_bf16",
     {"multistage", "wide_warp_tile"},
     {{130, 264, 200}, {1, 1, 8}, {257, 3, 72}},
     {7},
     kBoth},
    // Of 513 x 520, the blocks that stay have several tiles each, and their rings go round and round.
    {"matmul_bf16", kHopper, {{1, 8, 8}, {130, 264, 200}, {513, 520, 72}}, {7}, kBoth},
    {"matmul_fp8",
     kAnyGpu,
     {{1, 1, 128}, {129, 130, 128}, {5, 257, 256}, {130, 7, 640}, {64, 64, 1024}}},
    // More tiles than the emulated GPU has multiprocessors, more groups than the ring has stages, edges.
    {"matmul_fp8", {"wgmma"}, {{1, 2, 128}, {129, 130, 896}, {700, 258, 256}}},
    {"matmul_fp8", {"wgmma"}, {{130, 258, 1408}}, {kSeed}, kFast},
    // A seed for each of the layouts and results.
    {"matmul_turned", kAll, {{136, 264, 200}, {8, 8, 8}}, {0, 1, 2, 3, 4, 5}},
    {"matmul_turned", kAll, {{520, 776, 72}}, {kSeed}, kFast},
    {"split_k", kAnyGpu, varied({140, 136, 456, 0}, 3, {1, 5, 7, 13, 49, 100}), {kSeed}, kFast},
    {"split_k", kAnyGpu, {{1, 1, 8, 4}, {129, 129, 72, 9}}},
    {"transpose", {"vectorised"}, {{66, 130}, {65, 128}, {128, 67}, {3, 5}}},
    {"quantize_fp8", kAnyGpu, {{1, 128}, {3, 128}, {5, 640}, {33, 128}}},
    {"small_launches", kAnyGpu, {{1, 4}, {3, 124}, {2, 1024}}},
    {"linear_cross_entropy",
     kAnyGpu,
     {{1, 1, 8}, {1, 127, 64}, {129, 129, 72}, {2, 300, 200}, {130, 8, 8}}},
    {"linear_cross_entropy_backward",
     kAnyGpu,
     {{1, 8, 8}, {1, 136, 64}, {129, 136, 72}, {300, 264, 16}, {130, 8, 136}}},
    {"swiglu", {"vectorised"}, varied({1, 0}, 1, {1, 2, 3, 4, 5, 1021, 1022, 1023, 1025})},
    {"swiglu_backward", {"vectorised"}, varied({1, 0}, 1, {1, 2, 3, 4, 5, 1021, 1022, 1023, 1025})},
    {"swiglu_bf16", {"vectorised"}, varied({1, 0}, 1, {1, 7, 8, 9, 15, 2047, 2049, 2055})},
    {"rms_norm", {"in_registers", "fused"}, {{1, 16384}, {1, 16383}}, {kSeed}, kFast},
    // Three rows for some blocks, of more than one warp, with and without vectors.
    {"rms_norm_backward", {"two_stages"}, {{540, 260}}},
    {"rms_norm_backward", {"two_stages"}, {{600, 516}, {600, 259}, {2, 8192}}, {kSeed}, kFast},
    {"rms_norm_bf16", {"in_registers"}, varied({3, 0}, 1, {1, 8, 9, 511, 520, 1032, 4096})},
    {"rms_norm_bf16",
     {"warp_per_row"},
     varied({3, 0}, 1, {1, 8, 9, 511, 520, 1032, 4096}),
     {kSeed},
     kFast},
    {"adamw_bf16", {"fused"}, varied({0}, 0, {1, 7, 8, 9, 255, 2047, 2049})},
    // Rows that go round every loop, and the longest that shared memory holds.
    {"cross_entropy", {"online", "in_shared"}, {{2, 9001}, {2, 20004}}, {kSeed}, kBoth},
    {"cross_entropy",
     {"in_shared"},
     {{1, kernels::cross_entropy::kLongestSharedRow}},
     {kSeed},
     kFast}};

class LadderCorners : public ::testing::TestWithParam<std::size_t> {};

INSTANTIATE_TEST_SUITE_P(All, LadderCorners, ::testing::Range(std::size_t{0}, kCorners.size()),
                         [](const auto& row) {
                           return fmt::format("{}_{}", kCorners[row.param].ladder, row.param);
                         });

TEST_P(LadderCorners, AreRight) {
  const Corners& row = kCorners[GetParam()];
  const auto ladder = test::find_ladder(row.ladder);
  for (const std::string& rung : names_of(*ladder, row.rungs)) {
    for (const Sizes& sizes : row.sizes) {
      for (const std::uint64_t seed : row.seeds) {
        for (const simt::Executor executor : row.executors) {
          test::expect_right(*ladder, test::find_rung(*ladder, rung),
                             {.sizes = sizes, .seed = seed, .executor = executor});
        }
      }
    }
  }
}

// What a rung says of sizes that it does not take; nothing where it does.
struct RefusedSizes {
  const char* ladder;
  Rungs rungs;
  Sizes sizes;
  const char* text;
};

const std::vector<RefusedSizes> kRefused = {
    {"attention",
     {"online"},
     {1, 1, 1, 8, 129},
     "head_dim is 129, expected at most 128: rows are held in registers"},
    {"attention",
     {"flash_forward"},
     {1, 1, 1, 8, 6},
     "head_dim is 6, expected a multiple of 4: rows are loaded 16 bytes at once"},
    {"attention", {"flash_forward"}, {1, 1, 1, 8, 128}, ""},
    {"attention", {"naive"}, {64, 8, 8, 8192, 64}, " "},
    {"attention", {"online"}, {64, 8, 8, 8192, 64}, ""},
    {"attention_bf16",
     kAll,
     {1, 1, 1, 8, 20},
     "head_dim is 20, expected a multiple of 8, at most 128"},
    {"attention_bf16", kAll, {1, 1, 1, 8, 120}, ""},
    {"attention_varlen",
     {"bounded"},
     {2, 8, 1, 1, 20},
     "head_dim is 20, expected a multiple of 8, at most 128"},
    {"attention_decode", {"split"}, {1, 8, 1, 9, 64}, "expected at most 8"},
    {"attention_decode", {"split"}, {1, 8, 1, 1, 60}, "multiple of 8"},
    {"attention_decode", {"grouped"}, {1, 30000, 1, 4, 64}, "rung 3 divides"},
    {"attention_decode", {"block_per_head"}, {1, 30000, 1, 4, 64}, ""},
    {"attention_decode", {"split"}, {1, 1 << 20, 1, 4, 64}, ""},
    {"softmax", {"registers"}, {4, 2049}, "2049 columns"},
    {"softmax", {"block_per_row"}, {4, 2049}, ""},
    {"softmax", {"block_per_row"}, {4, 32769}, "at most 32768"},
    {"softmax", {"online"}, {4, 32769}, ""},
    {"token_permutation", {"atomics"}, {4, 8, 257, 1}, "257 experts"},
    {"token_permutation", {"stable"}, {4, 8, 2, 3}, "expected 3 to 256"},
    {"grouped_matmul", {"one_launch"}, {2, 4, 4, 12}, "multiple of 8"},
    {"matmul_fp32", kAll, {46340, 46340, 1}, ""},
    {"matmul_fp32", kAll, {46341, 46341, 1}, "a matrix has 2147488281 elements"},
    {"matmul_bf16", {"ldmatrix_swizzled"}, {1, 1, 97}, ""},
    {"matmul_bf16", {"multistage", "wide_warp_tile"}, {1, 1, 97}, "multiple of 8"},
    {"matmul_bf16", {"multistage", "wide_warp_tile"}, {1, 1, 96}, ""},
    {"matmul_bf16", kHopper, {64, 64, 64}, ""},
    {"matmul_bf16", kHopper, {64, 64, 12}, "multiples of 8"},
    {"matmul_bf16", kHopper, {64, 12, 64}, "multiples of 8"},
    {"matmul_fp8", {"wgmma"}, {4, 5, 128}, "an even number"},
    {"matmul_fp8", {"tensor_cores"}, {4, 4, 130}, "multiple of 128"},
    {"matmul_turned", kAll, {8, 12, 8}, "multiples of 8"},
    {"split_k", {"stream"}, {2, 4, 12, 4}, "multiple of 8"},
    {"quantize_fp8", {"vectorised"}, {2, 130}, "multiple of 128"},
    {"small_launches", {"separate"}, {2, 6}, "multiple of 4"},
    {"small_launches", {"programmatic"}, {2, 1028}, "does not fit a warp's registers"},
    {"linear_cross_entropy", {"fused"}, {4, 8, 12}, "multiple of 8"},
    {"linear_cross_entropy", {"materialized"}, {65536, 131072, 64}, "rung 2 keeps none"},
    {"linear_cross_entropy", {"fused"}, {65536, 131072, 64}, ""},
    {"linear_cross_entropy_backward", {"chunked"}, {4, 12, 8}, "pad the vocabulary"},
    {"linear_cross_entropy_backward", {"chunked"}, {4, 16, 12}, "multiples of 8"},
    {"rms_norm", {"in_registers", "fused"}, {1, 16385}, " "},
    {"rms_norm_backward", {"two_stages"}, {2, 8193}, " "},
    {"rms_norm_bf16", {"in_registers"}, {1, 16384}, ""},
    {"rms_norm_bf16", {"in_registers"}, {1, 16385}, "rung 1 does any length"},
    {"cross_entropy", {"in_shared"}, {1, kernels::cross_entropy::kLongestSharedRow + 1}, " "}};

TEST(LadderRefusals, SayWhatIsWrongAndTakeTheRest) {
  for (const RefusedSizes& row : kRefused) {
    const auto ladder = test::find_ladder(row.ladder);
    for (const std::string& rung : names_of(*ladder, row.rungs)) {
      const std::string found =
          ladder->refusal(test::find_rung(*ladder, rung), row.sizes, simt::Executor::kFast);
      SCOPED_TRACE(
          fmt::format("{} {}, sizes {}: {}", row.ladder, rung, fmt::join(row.sizes, "x"), found));
      EXPECT_EQ(found.empty(), *row.text == '\0');
      EXPECT_THAT(found, ::testing::HasSubstr(row.text));
    }
  }
}

struct WithoutConflicts {
  const char* ladder;
  Rungs rungs;
  std::vector<Sizes> sizes;
  std::uint64_t seed = kSeed;
  bool stores = true;  // and not the loads alone
};

const std::vector<WithoutConflicts> kWithoutConflicts = {
    {"attention",
     {"flash_forward", "flash_causal", "flash_grouped"},
     {{1, 1, 1, 64, 64}, {1, 1, 1, 64, 128}},
     4},
    {"attention_bf16", {"swizzled", "pipelined"}, {{1, 1, 1, 128, 64}, {1, 1, 1, 128, 128}}, 4},
    {"attention_backward", kAnyGpu, {{1, 1, 1, 64, 64}, {1, 1, 1, 64, 128}}, 4},
    {"attention_backward_bf16", kAnyGpu, {{1, 1, 1, 128, 64}, {1, 1, 1, 128, 128}}, 4},
    {"grouped_matmul", {"one_launch"}, {{2, 256, 128, 128}}},
    {"matmul_fp8", kAnyGpu, {{128, 256, 256}}, kSeed, false},
    {"split_k", kAnyGpu, {{256, 384, 512, 16}}},
    {"linear_cross_entropy", {"fused"}, {{128, 512, 64}}, kSeed, false},
    {"linear_cross_entropy_backward", {"chunked"}, {{256, 256, 64}}, kSeed, false}};

class SharedAccesses : public ::testing::TestWithParam<std::size_t> {};

INSTANTIATE_TEST_SUITE_P(All, SharedAccesses,
                         ::testing::Range(std::size_t{0}, kWithoutConflicts.size()),
                         [](const auto& row) { return kWithoutConflicts[row.param].ladder; });

TEST_P(SharedAccesses, MeetInNoBank) {
  const WithoutConflicts& row = kWithoutConflicts[GetParam()];
  const auto ladder = test::find_ladder(row.ladder);
  for (const std::string& rung : names_of(*ladder, row.rungs)) {
    for (const Sizes& sizes : row.sizes) {
      const simt::Report report = test::expect_right(*ladder, test::find_rung(*ladder, rung),
                                                     {.sizes = sizes, .seed = row.seed})
                                      .report;
      for (const simt::AccessKind kind :
           {simt::AccessKind::kSharedLoad, simt::AccessKind::kSharedStore}) {
        if (kind == simt::AccessKind::kSharedStore && !row.stores) continue;
        EXPECT_EQ(report.total(kind).wavefronts, report.total(kind).ideal_wavefronts)
            << rung << ", sizes " << fmt::format("{}", fmt::join(sizes, "x")) << '\n'
            << simt::to_table(report);
      }
    }
  }
}

}  // namespace ultra::ladders::corners_test
