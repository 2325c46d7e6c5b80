/* test_oom.cc: what out of memory is thrown as: PyTorch's own type where the process has it, by either of the ways
 * that its versions need, else std::bad_alloc.
 * usage: test_oom [FAKE_LIBC10.so]
 */
#include "check.h"

#include <cstring>
#include <dlfcn.h>
#include <new>
#include <string>

extern "C" void stwt_throw_out_of_memory(const char *message);

int main(int argc, char **argv)
{
    const char *text = "CUDA out of memory. Tried to allocate more than there is, and the sentence is not a short one";
    if (argc > 1) {
        void *lib = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL); /* as PyTorch loads it */
        if (!CHECK(lib != NULL))
            return check_end(dlerror());
        int (*catches)(void (*)(const char *), const char *) = NULL;
        *reinterpret_cast<void **>(&catches) = dlsym(lib, "fake_c10_catches");
        for (int i = 0; i < 3; i++)
            CHECK_EQ(catches(stwt_throw_out_of_memory, i == 1 ? "short" : text), 0);
        return check_end(argv[1]);
    }
    std::string caught;
    for (int i = 0; i < 2; i++)
        try {
            stwt_throw_out_of_memory(text);
        } catch (const std::bad_alloc &e) {
            caught += e.what();
        }
    CHECK(caught == std::string(text) + text);
    return check_end("test_oom");
}
