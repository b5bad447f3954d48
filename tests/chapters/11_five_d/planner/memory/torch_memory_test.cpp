// What torchtitan's allocator holds, against its code: a growing segment, and sums by hand.
//
// Covers: chapters/11_five_d/planner/layout_memory.hpp, memory/stage_parameters.hpp
#include <gtest/gtest.h>

#include <list>
#include <map>

#include "chapters/11_five_d/planner/layout_memory.hpp"

namespace ultra::planner {
namespace {

/// One stream's expandable segment, as PyTorch's c10/cuda/CUDACachingAllocator.cpp has it: the smallest
/// free block that is large enough, split; neighbours that are free become one; else the segment grows
/// by what its free end lacks.
class GrowingSegment {
 public:
  void allocate(char name, double size) {
    auto best = blocks_.end();
    for (auto one = blocks_.begin(); one != blocks_.end(); ++one) {
      if (one->name == kFree && one->size >= size &&
          (best == blocks_.end() || one->size < best->size)) {
        best = one;
      }
    }
    if (best == blocks_.end()) {
      if (blocks_.empty() || blocks_.back().name != kFree) blocks_.push_back({kFree, 0});
      best = std::prev(blocks_.end());
      best->size = size;
    }
    blocks_.insert(std::next(best), {kFree, best->size - size});
    *best = {name, size};
  }
  void free(char name) {
    for (Block& one : blocks_) {
      if (one.name == name) one.name = kFree;
    }
    for (auto one = blocks_.begin(); one != blocks_.end();) {
      const auto next = std::next(one);
      if (next == blocks_.end() || one->name != kFree || next->name != kFree) {
        one = next;
        continue;
      }
      one->size += next->size;
      blocks_.erase(next);
    }
  }
  [[nodiscard]] double size() const {
    double sum = 0;
    for (const Block& one : blocks_) sum += one.size;
    return sum;
  }

 private:
  static constexpr char kFree = 0;
  struct Block {
    char name;
    double size;
  };
  std::list<Block> blocks_;
};

const Question& torchtitan(const char* model, std::size_t seq_len, std::size_t batch) {
  static std::map<std::string, Question> questions;
  return questions
      .try_emplace(
          model + std::to_string(seq_len),
          Question{.work = {.model = *find_model(model), .seq_len = seq_len, .global_batch = batch},
                   .cluster = *replay::find_cluster("h100-hbm2e"),
                   .software = find_software("torchtitan")})
      .first->second;
}

// A logit's bytes: pred (bf16), pred.float() and log_softmax's result; the first two are freed; going
// backward the gradients of the result and of pred.float(), of which the second finds no room.
TEST(TorchMemory, ALogitInTheLoss) {
  GrowingSegment segment;
  segment.allocate('p', 2);
  segment.allocate('f', 4);
  segment.allocate('s', 4);
  segment.free('f');
  segment.free('p');
  segment.allocate('n', 4);
  segment.allocate('g', 4);
  const Workload& work = torchtitan("llama-8b", 8192, 16).work;
  const double logits = 8192.0 * 128256;
  const double of_product = 2;
  EXPECT_EQ(table_bytes(work, {}, find_software("torchtitan")).loss,
            (segment.size() - of_product) * logits);
}

// The same over tp, as torch/distributed/tensor/parallel/loss.py has it: x - max, exp() of that, and
// their difference; going backward the gradient, exp(x), their sum, and that times grad_output.
TEST(TorchMemory, ALogitInTheLossOverTp) {
  GrowingSegment segment;
  for (const auto& [name, size] : {std::pair{'p', 2}, {'f', 4}, {'s', 4}, {'e', 4}}) {
    segment.allocate(name, size);
  }
  segment.free('e');
  segment.allocate('r', 4);
  for (const char name : {'s', 'f', 'p'}) segment.free(name);
  segment.allocate('i', 4);
  segment.allocate('x', 4);
  segment.allocate('t', 4);
  segment.free('x');
  segment.allocate('o', 4);
  const Workload& work = torchtitan("llama-8b", 8192, 16).work;
  const double of_product = 2;
  EXPECT_EQ(table_bytes(work, {.tp = 8}, find_software("torchtitan")).loss,
            (segment.size() - of_product) * 8192.0 * 128256 / 8);
}

// Llama 3.1 8B on 8 GPUs, two sequences each, compiled, selective (table 1 of the benchmarks), byte by byte.
TEST(TorchMemory, OfOneStageByHand) {
  const Layout layout{.dp = 8,
                      .zero = zero::ZeroStage::kParameters,
                      .micro_batch = 2,
                      .recompute = memory::Recompute::kSelective};
  const StageMemory memory = largest_stage(torchtitan("llama-8b", 8192, 16), layout);
  const double tokens = 2 * 8192;
  const double table = 128256.0 * 4096;
  const double block = 2 * 4096.0 * (4096 + 1024) + 3 * 4096.0 * 14336;
  const double parameters = 32 * (block + 2 * 4096) + 4096 + 2 * table;
  EXPECT_EQ(memory.parameters, 0);
  EXPECT_DOUBLE_EQ(memory.optimizer, 12 * parameters / 8);
  EXPECT_DOUBLE_EQ(memory.gradients, 4 * parameters / 8);
  const double kept = 32 * 2 * (3 * 4096.0 + 1024 + 14336) + 4;  // token ids: 4
  const double head = 2 * (2 * 4096 + 1) + 4 * 4096.0 + 14 * 128256.0;
  EXPECT_DOUBLE_EQ(memory.activations, tokens * (kept + head));
  // Tables and the last block, where they were gathered to, and the tables and a first block in the pool
  // that gathers.
  EXPECT_DOUBLE_EQ(memory.transient, 2 * 2 * (2 * table + block));
  EXPECT_EQ(fragmented_bytes(find_software("torchtitan"), layout, memory), 0);
  EXPECT_NEAR(memory.tensors(), 77.0 * 1073741824, 0.04 * 77.0 * 1073741824);  // as published
}

// A stage of Llama 3.1 405B (table 6): weights gathered in fp8, but in bf16 where no dp shares them
// (torchtitan/float8.py); whole fp32 sums, a block's own gradient in bf16; two gathers in their pool.
TEST(TorchMemory, OfAStageThatGathersOncePerStep) {
  Question question = torchtitan("llama-405b", 32768, 64);
  question.software.fp8_products = true;
  Question apart = question;
  apart.software.weights_are_masters = false;
  const double block = (2 * 16384.0 * (16384 + 1024) + 3 * 16384.0 * 53248) / 8;
  const double all = 16 * (block + 2 * 16384.0);
  for (const auto& [dp, cp, gathered] : {std::tuple{8U, 1U, 1.0}, {1U, 8U, 2.0}}) {
    const Layout layout{.dp = dp,
                        .pp = 8,
                        .cp = cp,
                        .tp = 8,
                        .zero = zero::ZeroStage::kOptimizer,
                        .recompute = memory::Recompute::kFull};
    const auto blocks = blocks_of_stages(question.work.model, layout, question.software);
    const StageMemory one = memory_of_stage(question, layout, blocks, 1);
    const StageMemory two = memory_of_stage(apart, layout, blocks, 1);
    EXPECT_EQ(blocks[1], 16U);
    EXPECT_EQ(one.parameters, 0);
    EXPECT_DOUBLE_EQ(two.parameters, 2 * all);
    EXPECT_DOUBLE_EQ(one.gradients, 4 * all / 8);
    EXPECT_DOUBLE_EQ(one.transient - two.transient,
                     4 * all + (16 + 2) * gathered * block + 2 * block);
    EXPECT_EQ(one.optimizer, two.optimizer);
    EXPECT_EQ(one.activations, two.activations);
    EXPECT_GT(fragmented_bytes(question.software, layout, one), 0);
  }
}

// Keys and values of all ranks of cp, of each query head: 2 x 8 x 16384 / 8 numbers of a token.
TEST(TorchMemory, KeysOfAllRanksOfCp) {
  const Question question = torchtitan("llama-405b", 32768, 64);
  Question not_repeated = question;
  not_repeated.software.repeats_keys = false;
  const Layout layout{.pp = 8, .cp = 8, .tp = 8, .recompute = memory::Recompute::kFull};
  const auto blocks = blocks_of_stages(question.work.model, layout, question.software);
  EXPECT_DOUBLE_EQ(memory_of_stage(question, layout, blocks, 1).transient -
                       memory_of_stage(not_repeated, layout, blocks, 1).transient,
                   2 * 8 * 2 * (32768.0 / 8) * 16384 / 8);
}

}  // namespace
}  // namespace ultra::planner
