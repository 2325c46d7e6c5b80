// cpu_adapter.cc: CPU tensors from the two functions it is given (runtime/torch/stw_torch.h). Compiled
// against the installed PyTorch, whose vtable this is.
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

namespace {

constexpr int HOST = -1; // STW_TORCH_HOST

void *(*take)(size_t size, int device, void *stream); // throws where there is no memory
int (*give)(void *p, int device);                     // -1: not ours
c10::Allocator *before;

// Memory from before we were installed may come back by our deleter: raw_deallocate asks for the current one.
void release(void *p)
{
    if (p != nullptr && give(p, HOST) != 0)
        before->raw_deallocate(p);
}

struct adapter final : c10::Allocator {
    c10::DataPtr allocate(size_t n) override
    {
        void *p = take(n, HOST, nullptr);
        return {p, p, &release, c10::Device(c10::DeviceType::CPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &release; }
    void copy_data(void *to, const void *from, std::size_t n) const override { default_copy_data(to, from, n); }
};

} // namespace

extern "C" void stweaver_cpu_install(void *malloc_function, void *release_function)
{
    take = reinterpret_cast<decltype(take)>(malloc_function);
    give = reinterpret_cast<decltype(give)>(release_function);
    before = c10::GetCPUAllocator();
    c10::SetCPUAllocator(new adapter, /*priority=*/100); // lives as long as the process: tensors outlive everything
}
