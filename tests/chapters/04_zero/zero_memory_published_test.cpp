// The tables of the ZeRO paper, cell by cell: Rajbhandari et al. 2020, "ZeRO: Memory Optimizations
// Toward Training Trillion Parameter Models", arXiv 1910.02054.

#include <array>

#include "chapters/04_zero/zero_memory.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

constexpr memory::NumberFormats kMixed = memory::NumberFormats::kBf16Mixed;

double gb_per_rank(ZeroStage stage, std::size_t parameters, int ranks) {
  return bytes_per_rank({.stage = stage, .shards = ranks}, parameters, kMixed).total() / 1e9;
}

/// How a column of the paper was cut to the digits that it prints. The paper does not say: this is
/// what all of its cells agree with.
enum class Digits { kRounded, kCutOff };

/// A printed number, with as many decimals as the table shows. `value` may be exactly between two
/// printed numbers: 41.25 prints as 41.3.
std::string printed(double value, std::size_t decimals, Digits digits) {
  const double scale = std::pow(10.0, static_cast<double>(decimals));
  const double shown = std::floor(value * scale + (digits == Digits::kRounded ? 0.5 : 0.0)) / scale;
  return fmt::format("{:.{}f}", shown, decimals);
}

std::size_t decimals_of(const std::string& number) {
  const std::size_t point = number.find('.');
  return point == std::string::npos ? 0 : number.size() - point - 1;
}

/// A model's three columns in one row.
using Cells = std::array<const char*, 3>;  // P_os, P_os+g, P_os+g+p

struct Row {
  int ranks;
  Cells of_7_5b, of_128b, of_1t;
};

constexpr std::array<Row, 6> kTable1 = {{
    {1, {"120", "120", "120"}, {"2048", "2048", "2048"}, {"16000", "16000", "16000"}},
    {4, {"52.5", "41.3", "30"}, {"896", "704", "512"}, {"7000", "5500", "4000"}},
    {16, {"35.6", "21.6", "7.5"}, {"608", "368", "128"}, {"4750", "2875", "1000"}},
    {64, {"31.4", "16.6", "1.88"}, {"536", "284", "32"}, {"4187", "2218", "250"}},
    {256, {"30.4", "15.4", "0.47"}, {"518", "263", "8"}, {"4046", "2054", "62.5"}},
    {1024, {"30.1", "15.1", "0.12"}, {"513", "257", "2"}, {"4011", "2013", "15.6"}},
}};

constexpr std::array<ZeroStage, 3> kStages = {ZeroStage::kOptimizer, ZeroStage::kGradients,
                                              ZeroStage::kParameters};

void expect_cells(const Cells& cells, std::size_t parameters, int ranks, Digits digits) {
  for (std::size_t i = 0; i < kStages.size(); ++i) {
    const double gb = gb_per_rank(kStages.at(i), parameters, ranks);
    const std::string expected = cells.at(i);
    EXPECT_EQ(printed(gb, decimals_of(expected), digits), expected)
        << parameters << " parameters, " << ranks << " ranks, " << name_of(kStages.at(i)) << ": "
        << gb << " GB";
  }
}

TEST(ZeroPaperTable1, EveryCell) {
  for (const Row& row : kTable1) {
    expect_cells(row.of_7_5b, 7'500'000'000, row.ranks, Digits::kRounded);
    expect_cells(row.of_128b, 128'000'000'000, row.ranks, Digits::kCutOff);
    expect_cells(row.of_1t, 1'000'000'000'000, row.ranks, Digits::kCutOff);
  }
}

/// Billions of parameters, in tenths, cut off: 32 GB per GPU, 64 ranks per model-parallel part.
int tenths_of_billions(ZeroStage stage) {
  return static_cast<int>(largest_model({.stage = stage, .shards = 64}, kMixed, 32e9) / 1e8);
}

/// "7.6B", "128B"; from 500B on in trillions, cut off: "0.5T", "2T".
std::string printed_size(int tenths_of_billions) {
  if (tenths_of_billions < 5000) {
    return fmt::format("{:g}B", static_cast<double>(tenths_of_billions) / 10.0);
  }
  return fmt::format("{:g}T", static_cast<double>(tenths_of_billions / 1000) / 10.0);
}

struct SizeRow {
  int model_parallel;
  const char *baseline, *optimizer, *gradients, *parameters;
};

/// The rows below the first are multiples of what the first one prints, not of the exact sizes:
/// 2 * 7.642 would be 15.3, not 15.2.
TEST(ZeroPaperTable2, EveryTheoreticalCell) {
  for (const SizeRow& row :
       {SizeRow{1, "2B", "7.6B", "14.4B", "128B"}, SizeRow{2, "4B", "15.2B", "28.8B", "256B"},
        SizeRow{4, "8B", "30.4B", "57.6B", "0.5T"}, SizeRow{8, "16B", "60.8B", "115.2B", "1T"},
        SizeRow{16, "32B", "121.6B", "230.4B", "2T"}}) {
    const auto cell = [&](ZeroStage stage) {
      return printed_size(row.model_parallel * tenths_of_billions(stage));
    };
    EXPECT_EQ(cell(ZeroStage::kNone), row.baseline) << "MP " << row.model_parallel;
    EXPECT_EQ(cell(ZeroStage::kOptimizer), row.optimizer) << "MP " << row.model_parallel;
    EXPECT_EQ(cell(ZeroStage::kGradients), row.gradients) << "MP " << row.model_parallel;
    EXPECT_EQ(cell(ZeroStage::kParameters), row.parameters) << "MP " << row.model_parallel;
  }
}

/// The table of many a textbook: bytes of a nominal 7B in bf16-mixed, in GB.
TEST(SevenBillionOnEight, EveryCell) {
  struct StageRow {
    ZeroStage stage;
    double parameters, gradients, optimizer, total;
  };
  for (const StageRow& row : {StageRow{ZeroStage::kNone, 14, 14, 84, 112},
                              StageRow{ZeroStage::kOptimizer, 14, 14, 10.5, 38.5},
                              StageRow{ZeroStage::kGradients, 14, 1.75, 10.5, 26.25},
                              StageRow{ZeroStage::kParameters, 1.75, 1.75, 10.5, 14}}) {
    const RankBytes bytes =
        bytes_per_rank({.stage = row.stage, .shards = 8}, 7'000'000'000, kMixed);
    EXPECT_EQ(bytes.parameters / 1e9, row.parameters) << name_of(row.stage);
    EXPECT_EQ(bytes.gradients / 1e9, row.gradients) << name_of(row.stage);
    EXPECT_EQ(bytes.optimizer / 1e9, row.optimizer) << name_of(row.stage);
    EXPECT_EQ(bytes.total() / 1e9, row.total) << name_of(row.stage);
  }
}

/// Section 7 of the paper: a step of data parallelism sends 2 P, of ZeRO-1 and ZeRO-2 2 P, of
/// ZeRO-3 3 P, 1.5 times as much; it leaves out the factor (N-1)/N, close to 1 for many ranks.
TEST(ZeroPaperSection7, VolumeOfEveryStage) {
  const auto trips = [](ZeroStage stage, int ranks) {
    const double p = 1e9;
    return sent_per_rank({.stage = stage, .shards = ranks}, 1'000'000'000, 1).total() / p;
  };
  for (const int ranks : {2, 8, 64, 1024}) {
    const double factor = 1.0 - 1.0 / ranks;
    EXPECT_DOUBLE_EQ(trips(ZeroStage::kNone, ranks), 2 * factor);
    EXPECT_DOUBLE_EQ(trips(ZeroStage::kOptimizer, ranks), 2 * factor);
    EXPECT_DOUBLE_EQ(trips(ZeroStage::kGradients, ranks), 2 * factor);
    EXPECT_DOUBLE_EQ(trips(ZeroStage::kParameters, ranks), 3 * factor);
  }
  EXPECT_NEAR(trips(ZeroStage::kParameters, 1024), 3, 0.005);
}

}  // namespace
}  // namespace ultra::zero
