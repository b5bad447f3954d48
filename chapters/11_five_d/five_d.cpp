#include "chapters/11_five_d/five_d.hpp"

#include "chapters/01_memory/memory.hpp"
#include "chapters/02_collectives/collectives.hpp"
#include "chapters/03_data_parallel/data_parallel.hpp"
#include "chapters/03_data_parallel/scaling/scaling_technique.hpp"
#include "chapters/04_zero/checkpoints/checkpointed_worker.hpp"
#include "chapters/04_zero/zero.hpp"
#include "chapters/05_tensor_sequence_parallel/scaling/tp_scaling_technique.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel.hpp"
#include "chapters/06_context_parallel/context_parallel.hpp"
#include "chapters/06_context_parallel/cost/cp_table_options.hpp"
#include "chapters/07_pipeline_parallel/pipeline_parallel.hpp"
#include "chapters/07_pipeline_parallel/table/pp_table_options.hpp"
#include "chapters/08_expert_parallel/cost/ep_table_options.hpp"
#include "chapters/08_expert_parallel/expert_parallel.hpp"
#include "chapters/10_mixed_precision/export/export_technique.hpp"
#include "chapters/10_mixed_precision/mixed_precision.hpp"
#include "chapters/11_five_d/composition/combinations.hpp"
#include "chapters/11_five_d/composition/combined_table.hpp"
#include "chapters/11_five_d/planner/options/plan_options.hpp"
#include "chapters/11_five_d/profile/machine_profile.hpp"

namespace ultra::five_d {

// [region techniques]
train::Techniques techniques() {
  return train::list_of(memory::technique(), collectives::technique(), data_parallel::technique(),
                        data_parallel::scaling_prediction(), zero::technique(), zero::checkpoints(),
                        zero::offload(), tensor_parallel::technique(),
                        tensor_parallel::tp_scaling_prediction(), context_parallel::technique(),
                        context_parallel::method_table(), pipeline_parallel::technique(),
                        pipeline_parallel::schedule_table(), expert_parallel::technique(),
                        expert_parallel::dispatch_table(), mixed_precision::weight_export(),
                        mixed_precision::technique(), combined_table(), combinations(),
                        profile::technique(), planner::technique());
}
// [/region]

}  // namespace ultra::five_d
