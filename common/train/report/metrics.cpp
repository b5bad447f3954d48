#include "common/train/report/metrics.hpp"

#include "common/base/json.hpp"

namespace ultra::train {

namespace {

Json config_json(const TrainOptions& o, const ExtraConfig& extra) {
  Json config = {{"layers", o.model.num_layers},
                 {"hidden", o.model.hidden_size},
                 {"heads", o.model.num_heads},
                 {"kv_heads", o.model.num_kv_heads},
                 {"ffn", o.model.ffn_hidden_size},
                 {"seq", o.model.max_seq_len},
                 {"vocab", o.model.vocab_size},
                 {"global_batch", o.global_batch},
                 {"micro_batch", o.micro_batch},
                 {"steps", o.steps},
                 {"lr", o.learning_rate},
                 {"warmup", o.warmup},
                 {"clip", o.clip_norm},
                 {"optimizer", o.optimizer},
                 {"seed", o.seed},
                 {"dtype", to_string(o.dtype)},
                 {"device", to_string(o.device)},
                 {"data", o.data}};
  if (o.decay) config["decay"] = *o.decay;
  if (o.model.tied_embeddings) config["tied_embeddings"] = true;
  if (o.model.head_size > 0) config["head_dim"] = o.model.head_size;
  if (o.model.qkv_bias) config["qkv_bias"] = true;
  if (o.model.qk_norm) config["qk_norm"] = true;
  if (o.model.head_chunks > 1) config["head_chunks"] = o.model.head_chunks;
  if (o.model.sliding_window > 0) config["window"] = o.model.sliding_window;
  if (const nn::LatentAttention& latent = o.model.latent; latent.on) {
    config["attention"] = latent.absorbed ? "mla-absorbed" : "mla";
    config["kv_lora_rank"] = latent.kv_lora_rank;
    config["q_lora_rank"] = latent.q_lora_rank;
    config["qk_nope_head_dim"] = latent.qk_nope_head_dim;
    config["qk_rope_head_dim"] = latent.qk_rope_head_dim;
    config["v_head_dim"] = latent.v_head_dim;
  }
  if (!o.freeze.empty()) config["freeze"] = o.freeze;
  if (o.model.mtp) config["mtp_weight"] = o.mtp_weight;
  if (o.head_z_loss > 0) config["head_z_loss"] = o.head_z_loss;
  if (!o.init.empty()) config["init"] = o.init;
  if (o.tokens != data::TokenFormat::kBytes) {
    config["tokens"] = o.tokens == data::TokenFormat::kU16 ? "u16" : "u32";
  }
  if (!o.mask.empty()) config["mask"] = o.mask;
  if (!o.val_data.empty()) {
    config["val_data"] = o.val_data;
    config["val_every"] = o.val_every;
    config["val_batches"] = o.val_batches;
  }
  for (const auto& flag : extra) {
    std::visit([&](const auto& value) { config[flag.first] = value; }, flag.second);
  }
  return config;
}

Json step_json(const StepMetrics& m) {
  Json step = {{"event", "step"},
               {"step", m.step},
               {"loss", m.loss},
               {"grad_norm", m.grad_norm},
               {"learning_rate", m.learning_rate},
               {"tokens_per_second", m.tokens_per_second}};
  if (m.validation_loss) step["validation_loss"] = *m.validation_loss;
  if (m.next_loss) step["mtp_loss"] = *m.next_loss;
  for (const auto& [name, values] : m.figures) step[name] = values;
  return step;
}

/// Of the steps that a validation followed.
Json validations_json(const std::vector<StepMetrics>& steps) {
  Json all = Json::array();
  for (const StepMetrics& step : steps) {
    if (step.validation_loss) all.push_back({{"step", step.step}, {"loss", *step.validation_loss}});
  }
  return all;
}

}  // namespace

double TrainResult::tokens_per_second(const TrainOptions& options) const {
  const double tokens = static_cast<double>(steps_made()) *
                        static_cast<double>(options.global_batch * options.model.max_seq_len);
  return seconds > 0.0 ? tokens / seconds : 0.0;
}

ExtraConfig joined(std::initializer_list<ExtraConfig> configs) {
  ExtraConfig all;
  for (const ExtraConfig& config : configs) all.insert(all.end(), config.begin(), config.end());
  return all;
}

MetricsFile::MetricsFile(const std::string& path) {
  if (!path.empty()) file_.emplace(path, "metrics file (--metrics)");
}

void MetricsFile::finish(const TrainOptions& options, const ExtraConfig& extra,
                         const TrainResult& result) {
  if (!file_) return;
  Json losses = Json::array();
  for (const StepMetrics& step : result.steps) {
    file_->write(step_json(step).dump() + "\n");
    losses.push_back(step.loss);
  }
  Json ranks = Json::array();
  for (const RankSummary& rank : result.ranks) ranks.push_back(to_json(rank));
  Json summary = {{"event", "summary"},
                  {"config", config_json(options, extra)},
                  {"losses", losses},
                  {"earlier_steps", result.earlier_steps},
                  {"parameters", result.parameters},
                  {"seconds", result.seconds},
                  {"tokens_per_second", result.tokens_per_second(options)},
                  {"ranks", ranks}};
  if (!options.val_data.empty()) summary["validation_losses"] = validations_json(result.steps);
  file_->write(summary.dump() + "\n");
  file_->commit();
}

}  // namespace ultra::train
