// A step that stands on a tape, of a device that computes nothing: against the same step on the emulated
// device and on the CPU, and against closed forms.
// Covers: common/gpu/meta/tape.hpp.
#include <set>

#include "common/gpu/streams.hpp"
#include "tests/devices/layouts.hpp"
#include "tests/devices/one_rank_step.hpp"
#include "tests/support/emulated_device.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::devices {
namespace {

using gpu::EntryKind;
using gpu::Tape;
using gpu::TapedWork;
using gpu::WorkKind;
using enum MemoryCategory;

/// Sizes of a model, and the flags of a training with them.
struct Drawn {
  std::string flags;
  std::size_t seq = 0;
  std::size_t tokens = 0;  // of a global batch
};

/// @param least  of hidden size and sequence: from 64 on, tiles of the ladders are worth their while.
Drawn draw(test::Random& random, std::size_t least) {
  const std::size_t heads = random.pick({std::size_t{1}, std::size_t{2}, std::size_t{4}});
  const std::size_t fours = least / (4 * heads);  // of a head
  const std::size_t hidden = heads * 4 * random.between(fours + 1, fours + 3);
  Drawn drawn;
  drawn.seq = random.between(least + 1, least + 15);
  const std::size_t micro_batch = random.between(1, 2);
  const std::size_t batch = micro_batch * random.between(1, 3);
  drawn.tokens = batch * drawn.seq;
  drawn.flags = fmt::format(
      "--layers {} --hidden {} --heads {} --kv-heads {} --ffn {} --seq {} --micro-batch {} "
      "--global-batch {} --warmup 1",
      random.between(1, 3), hidden, heads, random.pick({std::size_t{1}, heads}),
      random.between(least + 5, least + 50), drawn.seq, micro_batch, batch);
  return drawn;
}

/// What a step on one rank can be beside the plainest. Nothing overflows where there are no numbers, so that
/// the scale of losses is one with which nothing does elsewhere.
const std::vector<std::string>& ways() {
  static const std::vector<std::string> kWays = {
      "",
      "--recompute full",
      "--recompute selective",
      "--tied-embeddings",
      "--optimizer sgd",
      "--dtype f64",
      "--doc-length 5",
      "--precision bf16",
      "--precision bf16 --recompute full",
      "--precision fp16 --loss-scale-start 64",
      "--precision fp16 --grad-dtype f16 --loss-scale-start 64"};
  return kWays;
}

/// Whether memory of the categories that a prediction speaks of is equal.
void expect_same_memory(const OneRankStep& found, const OneRankStep& other) {
  for (const MemoryCategory category :
       {kParameters, kGradients, kOptimizer, kActivations, kCommunication}) {
    EXPECT_EQ(found.memory.peak(category).bytes, other.memory.peak(category).bytes)
        << to_string(category);
    EXPECT_EQ(found.memory.current()[category], other.memory.current()[category])
        << to_string(category) << " at the end";
  }
}

std::size_t host_waits_on(const Tape& tape) {
  return static_cast<std::size_t>(
      std::ranges::count(tape.entries, EntryKind::kHostWait, &gpu::Entry::kind));
}

/// The peaks of the tape's own memory are the tracker's.
void expect_memory_of_each_moment(const Tape& tape, const OneRankStep& recorded) {
  ASSERT_FALSE(tape.memory.empty());
  EXPECT_EQ(tape.memory.back(), recorded.memory.current().bytes);
  for (const MemoryCategory category : {kActivations, kOther}) {
    std::size_t peak = 0;
    for (const gpu::TapedMemory& bytes : tape.memory) {
      peak = std::max(peak, bytes[static_cast<std::size_t>(category)]);
    }
    EXPECT_EQ(peak, recorded.memory.peak(category).bytes) << to_string(category);
  }
}

/// @param copies  whether copies of the ladders' operands count, and sums that a second kernel adds.
/// @return the recorded step, and the emulated one.
std::pair<OneRankStep, OneRankStep> expect_emulated(const std::string& flags, bool copies = true) {
  SCOPED_TRACE(flags);
  std::vector<std::string> announced;
  Tape tape;
  const OneRankStep emulated = emulated_step(flags, announced);
  const OneRankStep recorded = recorded_step(flags, tape);
  std::vector<std::string> operations = operations_of(tape);
  const std::set<std::string> of_ladders = {"compute: copy", "compute: strided copy",
                                            "compute: matmul_add",
                                            "compute: rms_norm_backward_add"};
  for (std::vector<std::string>* const names : {&operations, &announced}) {
    std::erase_if(*names, [&](const auto& name) { return !copies && of_ladders.contains(name); });
  }
  EXPECT_EQ(operations, announced);
  EXPECT_EQ(recorded.host_waits, emulated.host_waits);
  EXPECT_EQ(host_waits_on(tape), emulated.host_waits);
  expect_same_memory(recorded, emulated);
  expect_memory_of_each_moment(tape, recorded);
  return {recorded, emulated};
}

class RecordedStep : public test::RandomTest, public ::testing::WithParamInterface<std::string> {};

TEST_P(RecordedStep, IsTheEmulatedDevicesStep) {
  const std::string flags = fmt::format("{} {}", draw(random, 8).flags, GetParam());
  const auto [recorded, emulated] = expect_emulated(flags);
  expect_same_memory(recorded, second_step(flags, Device::cpu()));
  // Scratch of kernels, which the record has not, is the category other's.
  EXPECT_LE(recorded.memory.peak(kOther).bytes, emulated.memory.peak(kOther).bytes) << flags;
}

/// Where tiles of the ladders compute.
TEST_P(RecordedStep, IsTheEmulatedDevicesStepButForTheLaddersCopies) {
  expect_emulated(fmt::format("{} {}", draw(random, 64).flags, GetParam()), false);
}

class DeviceStep : public test::RandomTest {};

TEST_F(DeviceStep, AttentionInBf16CopiesNoHeads) {
  const std::string flags = fmt::format("{} --precision bf16", draw(random, 64).flags);
  SCOPED_TRACE(flags);
  std::vector<std::string> announced;
  static_cast<void>(emulated_step(flags, announced));
  int found = 0;
  for (std::size_t i = 1; i + 1 < announced.size(); ++i) {
    if (!announced[i].starts_with("compute: attention")) continue;
    ++found;
    EXPECT_EQ((announced[i - 1] + announced[i + 1]).find("copy"), std::string::npos)
        << announced[i - 1] << ", " << announced[i] << ", " << announced[i + 1];
  }
  EXPECT_GT(found, 1) << "forward and backward";
}

TEST_F(DeviceStep, OnAnH100ProductsOfLinearLayersAreInFp8) {
  for (const std::string recipe : {"none", "delayed", "current", "blockwise"}) {
    const std::size_t layers = random.between(1, 2);
    const std::size_t heads = random.between(1, 2);
    const std::string flags = fmt::format(
        "--layers {} --hidden {} --heads {} --kv-heads 1 --ffn {} --seq {} --micro-batch 1 "
        "--global-batch 1 --warmup 1 --precision fp8 --fp8-recipe {}",
        layers, 64 * heads, heads, 8 * random.between(8, 20), random.between(64, 80), recipe);
    SCOPED_TRACE(flags);
    const Device h100 = test::emulated_device("9");
    std::size_t packed = 0;
    static_cast<void>(second_step(flags, h100, [&](bool begins) {
      const auto note = [&](const gpu::StreamSlice& slice) {
        if (slice.operation == "fp8_factor") ++packed;
      };
      h100.streams().set_listener(begins ? std::function<void(const gpu::StreamSlice&)>(note)
                                         : nullptr);
    }));
    constexpr std::size_t kLinears = 7;  // four of attention, three of the feed-forward part
    // y, d_x and d_weight, whose sums tiles cross.
    const std::size_t products = recipe == "blockwise" ? 2 : 3;
    EXPECT_EQ(packed, layers * kLinears * products * 2) << "two factors each";
  }
}

/// Of each weight 4 bytes and those of its gradient and both moments; with master weights they are 4 bytes
/// more, and the weight is written beside them.
TEST_F(DeviceStep, AdamWIsOneOperationOverAllBytesOnce) {
  struct Way {
    const char* flags;
    std::size_t read, written;
  };
  for (const Way& way : {Way{"", 4 + 4 + 8, 4 + 8}, Way{"--dtype f64", 8 + 8 + 16, 8 + 16},
                         Way{"--precision bf16", 4 + 4 + 8, 4 + 8 + 2},
                         Way{"--precision bf16 --grad-dtype bf16", 4 + 2 + 8, 4 + 8 + 2}}) {
    const std::string flags = fmt::format("{} {}", draw(random, 8).flags, way.flags);
    SCOPED_TRACE(flags);
    Tape tape;
    const OneRankStep step = recorded_step(flags, tape);
    std::vector<TapedWork> found;
    for (const TapedWork& work : tape.works) {
      if (tape.names[work.name] == "adamw") found.push_back(work);
    }
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found.front().read_bytes, way.read * step.parameters);
    EXPECT_EQ(found.front().written_bytes, way.written * step.parameters);
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, RecordedStep, ::testing::ValuesIn(ways()), [](const auto& way) {
  std::string name = "Way" + way.param;
  std::erase_if(name, [](char c) { return std::isalnum(c) == 0; });
  return name;
});

double flop_of(const Tape& tape, WorkKind kind) {
  double sum = 0;
  for (const TapedWork& work : tape.works) sum += work.kind == kind ? work.flop : 0;
  return sum;
}

class RecordedFlop : public test::RandomTest {};

/// 6 for each weight that multiplies and each token; 12 for each pair of a query and a key that it sees
/// and each element of a head; both forward again where blocks are recomputed.
void expect_closed_form(const Tape& tape, const OneRankStep& step, const Drawn& drawn,
                        bool recomputes) {
  const nn::ModelConfig& model = step.model;
  const std::size_t norms = (2 * model.num_layers + 1) * model.hidden_size;
  const std::size_t table = model.vocab_size * model.hidden_size;
  const std::size_t in_blocks = step.parameters - norms - 2 * table;
  const double tokens = count_of(drawn.tokens);
  const double again = recomputes ? 1 : 0;
  EXPECT_EQ(flop_of(tape, WorkKind::kProduct),
            tokens * (6 * count_of(in_blocks + table) + 2 * again * count_of(in_blocks)));
  const double pairs = tokens * count_of(drawn.seq + 1) / 2;
  EXPECT_EQ(flop_of(tape, WorkKind::kAttention),
            (12 + 4 * again) * count_of(model.num_layers * model.hidden_size) * pairs);
}

TEST_F(RecordedFlop, IsThatOfTheClosedForm) {
  for (const char* dtype : {"", "--precision bf16"}) {
    for (const bool recomputes : {false, true}) {
      const Drawn drawn = draw(random, 8);
      const std::string flags =
          fmt::format("{} {} {}", drawn.flags, dtype, recomputes ? "--recompute full" : "");
      SCOPED_TRACE(flags);
      Tape tape;
      const OneRankStep step = recorded_step(flags, tape);
      expect_closed_form(tape, step, drawn, recomputes);
    }
  }
}

/// The blocks of Llama 3 8B, with a text's 256 tokens: 100 GB, which nobody has here, and whose numbers nobody
/// asks for.
TEST_F(RecordedFlop, IsThatOfALargeModelToo) {
  const Drawn drawn{.flags =
                        "--layers 32 --hidden 4096 --heads 32 --kv-heads 8 --ffn 14336 --seq 4096 "
                        "--micro-batch 1 --global-batch 4 --precision bf16",
                    .seq = 4096,
                    .tokens = 4 * 4096};
  Tape tape;
  const OneRankStep step = recorded_step(drawn.flags, tape);
  // As published: 8,030,261,248, of which 2 x 128,256 x 4,096 are of tokens.
  EXPECT_EQ(step.parameters, 8'030'261'248U - 2 * (128'256 - 256) * 4096);
  EXPECT_EQ(step.memory.peak(kParameters).bytes, 2 * step.parameters);
  expect_closed_form(tape, step, drawn, false);
}

/// The tiny trainings that every device is tried with.
TEST(RecordedLayout, IsTheEmulatedDevicesStep) {
  std::size_t tried = 0;
  for (const Layout& layout : layouts()) {
    // Experts are chosen by numbers, which there are none of.
    if (layout.chapter != "01_memory" && layout.chapter != "10_mixed_precision") continue;
    if (layout.flags.find("--dp") != std::string::npos) continue;
    if (layout.flags.find("--tp") != std::string::npos) continue;
    expect_emulated(flags_of(layout, "--steps 4"));
    ++tried;
  }
  EXPECT_GE(tried, 8U);
}

}  // namespace
}  // namespace ultra::devices
