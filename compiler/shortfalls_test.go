package compiler_test

// shortfalls by trainer, scenario and whether marks are seen. What is not listed holds in full. None may get
// worse; one that gets better should be lowered here (SHORTFALLS=1 go test -run TestScenarios prints what
// holds now). The causes:
//
//   - A step of other sizes throughout loses the position after some 35 requests, although its structure is the
//     plan's, and all of it goes to the heap beside an idle arena: short batch, shorter, longer, varying sequences.
//   - A smaller request that passes for an entry takes the entry's address. If it lives longer, the later owners
//     of that address conflict: for the step (moe, missing, swap), or for ever (two models, resumed, ramp-up).
//   - An unknown request that stays for ever and comes in the prologue becomes a guest where only the loop
//     will want to be: extra at the start, resumed.
//   - Without marks a search is tried every n / 4 requests, so the step after an odd one is spent on it.
//   - An unknown request is no guest while the position is not known: evaluation, longer.
var shortfalls = map[string]shortfall{
	"dense/short batch/marks":                                            {0, 32.3},
	"dense/three times the micro-batches/marks":                          {0, 1.8},
	"dense/shorter sequences/marks":                                      {0, 45.8},
	"dense/longer sequences/marks":                                       {0, 46.1},
	"dense/sequences vary/marks":                                         {1, 51.3},
	"dense/shorter from step 3 on/marks":                                 {0, 47.0},
	"dense/evaluation, longer/marks":                                     {0, 40.0},
	"dense/save/marks":                                                   {0, 2.0},
	"dense/resumed/marks":                                                {-1, 22.5},
	"dense/extra at the start/marks":                                     {-1, 0.0},
	"dense/two models/marks":                                             {-1, 16.1},
	"pipeline/shorter sequences/marks":                                   {0, 43.0},
	"recompute/short batch/marks":                                        {0, 21.9},
	"moe/steady/marks":                                                   {0, 3.9},
	"moe/half the micro-batches/marks":                                   {0, 3.9},
	"moe/shorter sequences/marks":                                        {0, 33.3},
	"moe/evaluation/marks":                                               {0, 3.9},
	"moe/exception in a backward/marks":                                  {0, 3.9},
	"dense/extra=20/iter/marks":                                          {0, 7.7},
	"dense/missing=20/iter/marks":                                        {0, 14.5},
	"dense/swap=1/iter/marks":                                            {0, 4.1},
	"dense/swap=20/iter/marks":                                           {0, 14.3},
	"dense/resize=20/iter/marks":                                         {0, 1.5},
	"dense/late=5/iter,extra=5/iter,missing=5/iter,swap=5/iter/marks":    {0, 9.6},
	"moe/extra=1/iter/marks":                                             {0, 3.9},
	"moe/missing=1/iter/marks":                                           {0, 3.9},
	"moe/late=5/iter,extra=5/iter,missing=5/iter,swap=5/iter/marks":      {0, 8.4},
	"dense/short batch/no marks":                                         {0, 50.6},
	"dense/half the micro-batches/no marks":                              {0, 9.4},
	"dense/three times the micro-batches/no marks":                       {0, 2.5},
	"dense/ramp-up/no marks":                                             {-1, 27.3},
	"dense/shorter sequences/no marks":                                   {0, 50.8},
	"dense/longer sequences/no marks":                                    {0, 46.1},
	"dense/sequences vary/no marks":                                      {0, 57.0},
	"dense/shorter from step 3 on/no marks":                              {0, 47.1},
	"dense/evaluation/no marks":                                          {0, 20.7},
	"dense/evaluation, longer/no marks":                                  {0, 40.0},
	"dense/save/no marks":                                                {0, 10.1},
	"dense/resumed/no marks":                                             {-1, 22.5},
	"dense/extra at the start/no marks":                                  {-1, 0.0},
	"dense/exception in a forward/no marks":                              {0, 14.5},
	"dense/exception in a backward/no marks":                             {0, 20.5},
	"dense/exception in the optimizer/no marks":                          {0, 9.4},
	"dense/two models/no marks":                                          {-1, 39.1},
	"pipeline/shorter sequences/no marks":                                {0, 43.0},
	"pipeline/evaluation/no marks":                                       {0, 18.6},
	"pipeline/exception in a backward/no marks":                          {0, 18.6},
	"recompute/short batch/no marks":                                     {0, 23.8},
	"recompute/three times the micro-batches/no marks":                   {0, 20.5},
	"recompute/evaluation/no marks":                                      {0, 34.3},
	"moe/steady/no marks":                                                {0, 3.9},
	"moe/half the micro-batches/no marks":                                {2, 16.2},
	"moe/shorter sequences/no marks":                                     {-1, 48.7},
	"moe/evaluation/no marks":                                            {0, 12.0},
	"moe/exception in a backward/no marks":                               {2, 16.3},
	"dense/extra=20/iter/no marks":                                       {0, 7.7},
	"dense/missing=20/iter/no marks":                                     {0, 14.5},
	"dense/swap=1/iter/no marks":                                         {0, 4.1},
	"dense/swap=20/iter/no marks":                                        {0, 14.3},
	"dense/resize=20/iter/no marks":                                      {0, 1.5},
	"dense/late=5/iter,extra=5/iter,missing=5/iter,swap=5/iter/no marks": {0, 9.6},
	"moe/extra=1/iter/no marks":                                          {0, 3.9},
	"moe/missing=1/iter/no marks":                                        {0, 3.9},
	"moe/late=5/iter,extra=5/iter,missing=5/iter,swap=5/iter/no marks":   {0, 8.4},
}
