#include "chapters/02_collectives/simulator/published_bandwidths.hpp"

#include <array>

namespace ultra::collectives {
namespace {

constexpr std::string_view kRing = "bus bandwidth of the ring, about";
constexpr std::string_view kIssue212 = "NVIDIA nccl-tests issue 212, a maintainer's answer";
constexpr std::string_view kMedian = "median between nodes";
constexpr std::string_view kPlaybook =
    "the Ultra-Scale Playbook, figure of inter-node all-reduce bandwidth (8 H100 per node, EFA); "
    "its seven points read as 1, 2, 4, ..., 64 nodes";

constexpr auto kPublished = std::to_array<PublishedBandwidth>({
    {"8 x H100, NVLink 4", "line rate per direction", OpKind::kSend, 1, 8, 450.0, kIssue212},
    {"8 x H100, NVLink 4", kRing, OpKind::kAllReduce, 1, 8, 370.0, kIssue212},
    {"8 x H100, NVLink 4", "peak bus bandwidth with NVLS: the switch reduces", OpKind::kAllReduce,
     1, 8, 480.0, "NVIDIA nccl-tests issue 212; nccl issue 1374"},
    {"8 x H200", "peak bus bandwidth", OpKind::kAllReduce, 1, 8, 475.0,
     "NVIDIA nccl-tests issue 272"},
    {"8 x H800", "bus bandwidth, about", OpKind::kAllReduce, 1, 8, 215.0, "NVIDIA nccl issue 1374"},
    {"2 x H100 PCIe, NVLink bridge", "bus bandwidth", OpKind::kAllReduce, 1, 2, 116.0,
     "NVIDIA, NCCL issue 1161"},
    {"8 x H100 per node, EFA", kMedian, OpKind::kAllReduce, 1, 8, 436.0, kPlaybook},
    {"8 x H100 per node, EFA", kMedian, OpKind::kAllReduce, 2, 8, 361.7, kPlaybook},
    {"8 x H100 per node, EFA", kMedian, OpKind::kAllReduce, 4, 8, 160.1, kPlaybook},
    {"8 x H100 per node, EFA", kMedian, OpKind::kAllReduce, 8, 8, 99.6, kPlaybook},
    {"8 x H100 per node, EFA", kMedian, OpKind::kAllReduce, 16, 8, 84.7, kPlaybook},
    {"8 x H100 per node, EFA", kMedian, OpKind::kAllReduce, 32, 8, 64.9, kPlaybook},
    {"8 x H100 per node, EFA", kMedian, OpKind::kAllReduce, 64, 8, 32.9, kPlaybook},
});

}  // namespace

std::span<const PublishedBandwidth> published_bandwidths() { return kPublished; }

Json published_to_json() {
  Json json = Json::array();
  for (const PublishedBandwidth& row : kPublished) {
    json.push_back({{"machine", row.machine},
                    {"what", row.what},
                    {"op", to_string(row.op)},
                    {"nodes", row.nodes},
                    {"gpus_per_node", row.gpus_per_node},
                    {"gb_per_second", row.gb_per_second},
                    {"source", row.source}});
  }
  return json;
}

}  // namespace ultra::collectives
