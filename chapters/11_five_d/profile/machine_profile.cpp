#include "chapters/11_five_d/profile/machine_profile.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/json.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/train/cli/command_line.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::profile {
namespace {

Json json_of(const LinkSpeed& link) {
  return {{"latency", link.latency}, {"bandwidth", link.bandwidth}};
}

Json json_of(const std::vector<ProductSpeed>& products) {
  Json list = Json::array();
  for (const ProductSpeed& product : products) {
    list.push_back(
        {{"m", product.m}, {"k", product.k}, {"n", product.n}, {"flops", product.flops}});
  }
  return list;
}

class Profiling : public train::Technique {
 public:
  void add_flags(CLI::App& app, train::Setup&) override {
    train::Flags(app, "Machine")
        .add_switch(
            "--profile-machine", asked_,
            "measure products, memory and links on the ranks, and attention and elementwise "
            "operations of the model's blocks, and print a cluster file for "
            "--plan-cluster, instead of training");
  }
  std::vector<train::Question> questions() const override {
    if (!asked_) return {};
    return {{"--profile-machine", train::Instead::kMeasurement}};
  }
  void validate(train::Setup& setup) override { train::reject_conflicts(conflicts(setup)); }
  std::vector<train::Conflict> conflicts(const train::Setup& setup) const override {
    const bool on_device = has_streams(setup.train.device);
    return {{.first = fmt::format("--device {}",
                                  to_string(on_device ? setup.train.device : DeviceKind::kCuda)),
             .second = "--profile-machine",
             .reason = "it measures the host's processors and memory. Leave one of the two out.",
             .broken = asked_ && on_device}};
  }
  void measure(const train::Setup& setup) const override {
    RankOptions options = setup.rank_options();
    options.checking = Checking::kOff;  // what is timed is a message alone
    const BlockExtents block{.model = setup.train.model,
                             .batch = setup.train.micro_batch,
                             .seq = setup.train.model.max_seq_len,
                             .dtype = setup.train.dtype};
    run_ranks(
        setup.comm.world_size(),
        [&](Communicator& world) {
          train::expect_same_command_line(world, setup.command_line);
          MachineProfile profile = measure_machine(world, block);
          profile.ranks_copy = !options.link.has_value();
          if (world.rank() == 0) fmt::print("{}", cluster_file(profile));
        },
        options);
  }

 private:
  bool asked_ = false;
};

}  // namespace

std::string cluster_file(const MachineProfile& profile) {
  double peak = 0;
  for (const ProductSpeed& product : profile.products) peak = std::max(peak, product.flops);
  // Attention and elementwise operations may be faster than what was taken for the best.
  peak = std::max(peak, profile.attention_flops);
  const double memory = std::max(profile.memory_bandwidth, profile.elementwise);
  const Json efficiency = {
      {"products", 1.0}, {"memory", profile.elementwise / memory}, {"network", 1.0}};
  const Json file = {{"name", "this machine"},
                     {"gpu",
                      {{"name", "rank"},
                       {"peak_flops", peak},
                       {"memory_bandwidth", memory},
                       {"memory_bytes", profile.memory_bytes},
                       {"multiprocessors", 1},
                       {"flash_attention", profile.attention_flops / peak},
                       {"efficiency", efficiency},
                       {"kernel_seconds", profile.call_seconds},
                       {"measured_products", json_of(profile.products)}}},
                     {"gpus_per_node", profile.ranks_per_node},
                     {"nics_per_node", 1},
                     {"intra", json_of(profile.intra)},
                     {"inter", json_of(profile.inter)},
                     {"ranks_copy", profile.ranks_copy},
                     {"network_steals", profile.network_steals},
                     {"straggler", profile.straggler}};
  return file.dump(2) + "\n";
}

std::unique_ptr<train::Technique> technique() { return std::make_unique<Profiling>(); }

}  // namespace ultra::profile
