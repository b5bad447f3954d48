#pragma once
/// @file
/// Random trainings on meshes dp x tp.

#include "chapters/04_zero/zero.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel.hpp"
#include "common/base/numeric.hpp"
#include "tests/chapters/02_collectives/replicated_run.hpp"
#include "tests/chapters/03_data_parallel/sync_ways.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/mesh_case.hpp"

namespace ultra::tensor_parallel::test {

using namespace ultra::test;

/// @brief The techniques of the chapter's program, with the flags that chapters to come ask for.
inline train::Techniques techniques() {
  return train::list_of(flags_of_every_trainer(), memory::technique(), collectives::technique(),
                        data_parallel::technique(), zero::technique(), zero::offload(),
                        technique());
}

/// @brief How ranks of tp split tokens, and hide their transfers.
struct Split {
  SequenceParallel sequence_parallel = SequenceParallel::kOff;
  TensorOverlap overlap = TensorOverlap::kBackward;

  [[nodiscard]] std::string flags() const {
    return fmt::format("--sp {} --tp-overlap {}",
                       sequence_parallel == SequenceParallel::kOn ? "on" : "off",
                       to_string(overlap));
  }
};

/// @brief The same case with latent attention of small widths, in either form.
inline MeshCase with_latents(MeshCase c, Random& random, bool absorbed) {
  nn::ModelConfig& model = c.options.model;
  model.num_kv_heads = model.num_heads;
  model.head_size = 0;
  model.qkv_bias = model.qk_norm = false;
  model.sliding_window = 0;
  model.latent = {.on = true,
                  .absorbed = absorbed,
                  .kv_lora_rank = 2 * random.between(1, 4),
                  .q_lora_rank = random.between(0, 3),
                  .qk_nope_head_dim = 2 * random.between(1, 3),
                  .qk_rope_head_dim = 2 * random.between(1, 2),
                  .v_head_dim = random.between(1, 4)};
  return c;
}

/// @brief Random small runs that can be split.
class SplitTest : public MeshTest {
 protected:
  /// Transfers hidden in any way.
  Split draw_split(SequenceParallel on) {
    if (on == SequenceParallel::kOn && random.between(0, 2) == 0) return {on, TensorOverlap::kRing};
    return {on, random.pick({TensorOverlap::kNone, TensorOverlap::kBackward})};
  }
  Split draw_split() {
    return draw_split(random.pick({SequenceParallel::kOff, SequenceParallel::kOn}));
  }

  /// Heads, widths and a vocabulary for the ranks of tp; key/value heads may be fewer.
  MeshCase draw(const Axes& axes, DType dtype, const Split& split) {
    const std::size_t tp = axes.tp;
    const bool splits_sequences = split.sequence_parallel == SequenceParallel::kOn;
    MeshCase c = MeshTest::draw(axes, dtype, {.sequence_multiple = splits_sequences ? tp : 1});
    c.techniques = techniques;
    c.of_one_rank = collectives::test::of_one_rank;
    if (tp > 1) c.layout = split.flags();  // alone it has nothing to share
    nn::ModelConfig& model = c.options.model;
    model.vocab_size += random.between(0, 2 * tp);
    const std::size_t divisor = random.between(1, tp);
    if (tp % divisor == 0 && random.pick({true, false})) model.num_kv_heads = divisor;
    return c;
  }
  MeshCase draw(const Axes& axes, DType dtype) { return draw(axes, dtype, draw_split()); }

  MeshCase with_zero(MeshCase c, int stage) {
    const std::string overlap = random.pick({"none", "bucketed"});
    c.more = fmt::format("--zero {} --overlap {}", stage, overlap);
    if (stage < 3) {
      c.more += fmt::format(" --bucket-mb {}", random.pick({1e-6, 0.008, 0.8}));
      return c;
    }
    if (overlap != "none") c.more += fmt::format(" --prefetch {}", random.between(0, 2));
    c.more += fmt::format(" --reshard-after-forward {}", random.pick({"yes", "no"}));
    return c;
  }
};

}  // namespace ultra::tensor_parallel::test
