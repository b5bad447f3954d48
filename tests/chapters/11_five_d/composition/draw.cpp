#include "tests/chapters/11_five_d/composition/draw.hpp"

#include "chapters/07_pipeline_parallel/lists/schedules.hpp"
#include "chapters/07_pipeline_parallel/schedule/schedule_choice.hpp"
#include "common/base/numeric.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/mask_file.hpp"
#include "tests/support/training/short_run.hpp"

namespace ultra::five_d::test {
namespace {

using ultra::test::Random;

/// Makes one configuration, flag by flag.
class Draw {
 public:
  Draw(Random& random, std::size_t most_ranks) : random_(random) { draw_mesh(most_ranks); }

  Configuration configuration() {
    draw_schedule();
    draw_context();
    draw_model();
    draw_experts();
    draw_batch();
    draw_layout();
    draw_states();
    draw_exchange();
    return std::move(configuration_);
  }

 private:
  /// True so many times in a hundred.
  bool percent(std::size_t chance) { return random_.between(1, 100) <= chance; }
  std::string pick(std::initializer_list<const char*> words) { return random_.pick(words); }
  std::size_t divisor_of(std::size_t number) {
    std::vector<std::size_t> divisors;
    for (std::size_t d = 1; d <= number; ++d) {
      if (number % d == 0) divisors.push_back(d);
    }
    return divisors[random_.between(0, divisors.size() - 1)];
  }

  void model(const char* flag, const std::string& value = "") {
    configuration_.model.emplace_back(flag, value);
  }
  void model(const char* flag, std::size_t value) { model(flag, std::to_string(value)); }
  void layout(const char* flag, const std::string& value = "") {
    configuration_.layout.emplace_back(flag, value);
  }
  void layout(const char* flag, std::size_t value) { layout(flag, std::to_string(value)); }

  void draw_mesh(std::size_t most_ranks) {
    do {
      dp_ = random_.pick({1U, 1U, 2U, 2U, 3U, 4U});
      pp_ = random_.pick({1U, 1U, 2U, 2U, 3U, 4U});
      cp_ = random_.pick({1U, 1U, 2U, 2U, 3U, 4U});
      tp_ = random_.pick({1U, 1U, 2U, 2U, 3U, 4U});
    } while (dp_ * pp_ * cp_ * tp_ > most_ranks);
    for (const auto& [flag, ranks] :
         {std::pair{"--dp", dp_}, {"--pp", pp_}, {"--cp", cp_}, {"--tp", tp_}}) {
      if (ranks > 1) layout(flag, ranks);
    }
  }

  void draw_schedule() {
    if (pp_ == 1 && !percent(15)) return;
    pipeline_parallel::ScheduleChoice choice;
    do {
      const auto all = pipeline_parallel::all_schedules();
      choice = all[random_.between(0, all.size() - 1)];
    } while (choice.row().updates && percent(70));
    if (choice.takes_chunks()) choice.interleaved_chunks = random_.between(1, 2);
    passes_in_groups_ = choice.row().in_groups;
    chunks_ = choice.chunks();
    if (percent(25)) split_stages_ = true;
    layout("--schedule", percent(8) && chunks_ == 1 ? "search" : choice.str());
  }

  void draw_context() {
    if (cp_ == 1) return;
    if (percent(60)) layout("--cp-layout", pick({"contiguous", "zigzag"}));
    const std::string method = pick({"ring", "all-gather", "ulysses", "ulysses+ring"});
    layout("--cp-method", method);
    if (method == "ulysses") ulysses_ = cp_;
    if (method != "ulysses+ring") return;
    ulysses_ = divisor_of(cp_);
    layout("--cp-ulysses", ulysses_);
  }

  void draw_model() {
    const bool sequence_parallel = tp_ > 1 && percent(60);
    if (tp_ > 1) {
      layout("--sp", sequence_parallel ? "on" : "off");
      if (percent(60)) {
        layout("--tp-overlap",
               sequence_parallel ? pick({"none", "backward", "ring"}) : pick({"none", "backward"}));
      }
    }
    const std::size_t split = tp_ * ulysses_;
    // Heads of keys and values that ranks hold alone, or together.
    const std::size_t kv =
        ulysses_ > 1 || percent(60) ? split * random_.between(1, 2) : divisor_of(tp_);
    const std::size_t heads = std::lcm(kv, split) * random_.between(1, kv < 4 ? 2 : 1);
    const std::size_t parts = pp_ * chunks_;
    std::size_t layers = std::max<std::size_t>(parts, 1) + random_.between(0, parts < 4);
    if (split_stages_) layers = split_of_layers(parts);
    model("--layers", layers);
    model("--hidden", heads * 2 * random_.between(1, heads < 8 ? 2 : 1));
    model("--heads", heads);
    const bool latents = percent(25);
    model("--kv-heads", latents ? heads : kv);
    ffn_ = tp_ * random_.between(1, 4);
    model("--ffn", ffn_);
    seq_ = 2 * cp_ + random_.between(0, 7);
    if (sequence_parallel) seq_ = ceil_div(seq_, tp_) * tp_;
    model("--seq", seq_);
    if (percent(30)) model("--vocab", 256 + random_.between(1, 9));
    if (percent(25)) model("--tied-embeddings");
    if (percent(25)) {
      model("--mtp");
    } else if (const std::size_t own = seq_ / cp_ / (sequence_parallel ? tp_ : 1);
               own > 1 && percent(25)) {
      layout("--head-chunks", random_.between(2, std::min<std::size_t>(own, 4)));
    }
    if (percent(10)) model("--head-z-loss", "0.1");
    if (latents) {
      draw_latents();
    } else {
      if (percent(40)) model(percent(50) ? "--qk-norm" : "--qkv-bias");
      if (percent(30)) model("--head-dim", 2 * random_.between(1, 4));
      if (percent(30)) model("--window", random_.between(1, seq_));
    }
    if (percent(30)) model("--doc-length", random_.between(2, 9));
    model("--dtype", "f64");
    model("--data", ultra::test::kText);
    model("--steps", percent(80) ? 2 : 3);
    model("--warmup", random_.between(1, 2));
    model("--seed", random_.between(1, 1000));
    model("--clip", pick({"0", "0.05", "1"}));
    if (percent(35)) {
      const std::string optimizer = pick({"sgd", "muon", "muon"});
      model("--optimizer", optimizer);
      if (optimizer == "muon" && percent(40)) layout("--muon-batch", random_.between(1, 3));
    }
    masked_ = percent(20);
    if (masked_) {
      model("--mask", ultra::test::mask_file(random_, random_.pick({0.9, 0.5, 0.1, 0.01})));
    }
    if (percent(15)) {
      model("--val-data", ultra::test::kText);
      model("--val-every", 1);
      model("--val-batches", random_.between(1, 2));
    }
  }

  void draw_latents() {
    model("--attention", percent(50) ? "mla" : "mla-absorbed");
    model("--kv-lora-rank", 2 * random_.between(1, 4));
    model("--q-lora-rank", random_.between(0, 4));
    model("--qk-nope-head-dim", 2 * random_.between(1, 3));
    model("--qk-rope-head-dim", 2 * random_.between(1, 2));
    model("--v-head-dim", random_.between(1, 4));
  }

  /// Gives the layers of each part, and returns their number.
  std::size_t split_of_layers(std::size_t parts) {
    if (percent(20)) {
      layout("--stage-split", "measured");
      return parts;
    }
    std::string text;
    std::size_t layers = 0;
    for (std::size_t part = 0; part < parts; ++part) {
      const std::size_t own = random_.between(1, 2);
      text += (text.empty() ? "" : ",") + std::to_string(own);
      layers += own;
    }
    layout("--stage-split", text);
    return layers;
  }

  void draw_experts() {
    if (!percent(45)) return;
    std::size_t ep = divisor_of(dp_ * cp_);
    if (percent(5)) ep += 1;
    const std::size_t experts = ep * random_.between(1, 3);
    model("--experts", experts);
    // Balance has no gradient but rounding where each token goes to all experts: nothing to compare by
    // in a step without a token that has a loss.
    const std::size_t chosen = masked_ ? std::max<std::size_t>(experts, 2) - 1 : experts;
    model("--top-k", random_.between(1, std::min<std::size_t>(chosen, 3)));
    if (percent(70)) model("--expert-ffn", tp_ * random_.between(1, 4));
    if (percent(30)) model("--shared-experts", random_.between(1, 2));
    if (percent(50)) model("--router", pick({"softmax", "sigmoid"}));
    const std::string balance = pick({"aux", "bias", "none"});
    model("--balance", balance);
    if (balance == "aux") model("--aux-loss", "0.5");
    if (balance == "bias") model("--bias-rate", "0.05");
    if (percent(25)) model("--z-loss", "0.1");
    if (percent(40)) model("--capacity-factor", pick({"0.7", "1.3"}));
    if (ep > 1 || percent(50)) layout("--ep", ep);
    data_ranks_ = dp_ * cp_ / (dp_ * cp_ % ep == 0 ? ep : 1);
  }

  void draw_batch() {
    const std::size_t micro_batch = random_.between(1, 2);
    std::size_t passes = random_.between(1, pp_ > 1 ? 4 : 3);
    if (passes_in_groups_ && !percent(10)) passes = ceil_div(passes, pp_) * pp_;
    std::size_t batch = dp_ * micro_batch * passes;
    // Some replicas have fewer sequences than others.
    if (dp_ > 1 && percent(50))
      batch -= std::min(micro_batch * random_.between(0, dp_ - 1), batch - 1);
    batch = std::max(batch, percent(97) ? ceil_div(dp_, micro_batch) * micro_batch : micro_batch);
    model("--global-batch", batch);
    model("--micro-batch", micro_batch);
  }

  void draw_layout() {
    const std::string recompute = pick({"none", "none", "selective", "full"});
    if (recompute != "none") layout("--recompute", recompute);
    if (recompute == "full" && percent(50)) layout("--recompute-every", random_.between(1, 3));
  }

  void draw_states() {
    const std::size_t zero = random_.between(0, 3);
    const std::size_t data = dp_ * cp_;
    if (zero > 0) layout("--zero", zero);
    const bool quantised_layout = zero == 3 && percent(20);
    if (zero == 3) {
      const bool keeps = percent(30) && !quantised_layout;
      if (keeps) layout("--reshard-after-forward", "no");
      if (percent(60)) layout("--prefetch", random_.between(0, 3));
    }
    if (quantised_layout) {
      layout("--zero++", pick({"hierarchical", "hierarchical", "weights-int8,hierarchical",
                               "gradients-int8,hierarchical", "gradients-int4"}));
      layout("--node-size", divisor_of(data_ranks_ > 0 ? data_ranks_ : data));
    } else if (zero > 0 && percent(20)) {
      layout("--hybrid-shard", divisor_of(data_ranks_ > 0 ? data_ranks_ : data));
    }
    if (zero > 0 && percent(25)) {
      layout("--offload", zero == 3 ? pick({"optimizer", "optimizer+params"}) : "optimizer");
      if (percent(15)) layout("--offload-to", "file:/tmp");
    }
    const bool has_rows = zero == 3 && !quantised_layout && percent(40);
    if (has_rows) layout("--shards", "rows");
    if ((zero < 3 || has_rows) && percent(8)) {
      model("--freeze", "norm,o_proj");  // a flat unit would have both
    } else if (percent(15)) {
      model("--freeze", pick({"model.layers.0.", "embed_tokens", "embed_tokens,model.layers.0."}));
    }
    if (zero > 0 && percent(15)) {
      layout("--reduce-scatter", pick({"ring", "pairwise"}));
    }
    if (zero < 3 && percent(15)) layout("--check-replicas", 1);
  }

  void draw_exchange() {
    if (percent(40)) {
      layout("--overlap", pick({"none", "per-parameter", "bucketed"}));
    }
    if (percent(40)) layout("--bucket-mb", pick({"0.0003", "0.002", "0.01"}));
    if (percent(9))
      layout("--compress", pick({"topk:1", "topk:1", "int8", "onebit", "powersgd:2"}));
    if (percent(15)) {
      layout("--collectives", "native");
    } else if (percent(15)) {
      layout("--all-reduce", pick({"pairwise", "segmented-ring", "recursive-doubling"}));
    }
    if (percent(50)) layout("--progress", "on-call");
    if (percent(8)) {
      configuration_.goes_on = percent(50) ? GoesOn::kAlone : GoesOn::kSpread;
    }
  }

  Random& random_;
  Configuration configuration_;
  std::size_t dp_ = 1;
  std::size_t pp_ = 1;
  std::size_t cp_ = 1;
  std::size_t tp_ = 1;
  std::size_t chunks_ = 1;
  std::size_t ulysses_ = 1;
  std::size_t ffn_ = 1;
  std::size_t seq_ = 1;
  std::size_t data_ranks_ = 0;  // that add up the gradients of an expert
  bool masked_ = false;
  bool split_stages_ = false;
  bool passes_in_groups_ = false;
};

}  // namespace

Configuration draw_configuration(Random& random, std::size_t most_ranks) {
  return Draw(random, most_ranks).configuration();
}

}  // namespace ultra::five_d::test
